"""The objects that the routes of a server share."""

from __future__ import annotations

from fastapi import Request

from opscope.server.hub import Hub
from opscope.server.library import Library
from opscope.server.shelf import Shelf
from opscope.server.watch_desk import WatchDesk


def library_of(request: Request) -> Library:
    """The runs and dumps."""
    library: Library = request.app.state.library
    return library


def hub_of(request: Request) -> Hub:
    """The trainings that are connected."""
    hub: Hub = request.app.state.hub
    return hub


def shelf_of(request: Request) -> Shelf:
    """The recordings of trainings that ended."""
    shelf: Shelf = request.app.state.shelf
    return shelf


def desk_of(request: Request) -> WatchDesk:
    """The watchpoints of runs without a training."""
    desk: WatchDesk = request.app.state.desk
    return desk
