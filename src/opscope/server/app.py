"""The application: routes under /api/v1, the page under /, and errors in one form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from starlette.exceptions import HTTPException

from opscope import __version__
from opscope.doctor import WITHOUT_PAGE
from opscope.errors import OpscopeError
from opscope.server import control_routes, recording_routes, routes, value_routes, watch_routes
from opscope.server.answering import answer
from opscope.server.hub import Hub
from opscope.server.library import Library
from opscope.server.shelf import Shelf
from opscope.server.watch_desk import WatchDesk

PAGE = Path(__file__).with_name("page")
"""The folder of the built page, if it was built."""
API = "/api/v1"
_NO_PAGE = (
    "<!doctype html><title>opscope</title><p>The page was not built when opscope was installed: "
    f"{WITHOUT_PAGE}.</p><p>The API is described in "
    "<a href=/api/v1/openapi.json>openapi.json</a>.</p>"
)


def create_app(
    library: Library, hub: Hub | None = None, recordings: Sequence[Path] = ()
) -> FastAPI:
    """The application over a library, and recordings that stand alone, unguarded.

    With a hub, trainings can connect.
    """
    app = FastAPI(
        title="opscope",
        version=__version__,
        description="What opscope recorded, and the trainings that are connected.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.library = library
    app.state.hub = hub or Hub(library)
    app.state.shelf = Shelf(library, recordings)
    app.state.desk = WatchDesk()
    app.include_router(routes.router, prefix=API)
    app.include_router(value_routes.router, prefix=API)
    app.include_router(control_routes.router, prefix=API)
    app.include_router(watch_routes.router, prefix=API)
    app.include_router(recording_routes.router, prefix=API)
    if hub is not None:
        app.include_router(control_routes.trainings)
    app.add_exception_handler(OpscopeError, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _plain)
    app.add_api_route("/{path:path}", _page, include_in_schema=False)
    return app


def _told(request: Request, error: Any) -> Response:
    missing = "there is no" in str(error) or "has no" in str(error)
    return answer({"error": str(error)}, 404 if missing else 400)


def _invalid(request: Request, error: Any) -> Response:
    problems = [f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in error.errors()]
    return answer({"error": "; ".join(problems)}, 422)


def _plain(request: Request, error: Any) -> Response:
    return answer({"error": str(error.detail)}, error.status_code)


def _page(path: str) -> Response:
    """A file of the page; every other address is the page itself, which reads it."""
    if path.startswith("api/"):
        return answer({"error": f"there is no /{path}"}, 404)
    wanted = (PAGE / path).resolve()
    if path and wanted.is_relative_to(PAGE.resolve()) and wanted.is_file():
        kept = "public, max-age=31536000, immutable" if path.startswith("assets/") else "no-cache"
        return FileResponse(wanted, headers={"cache-control": kept})
    index = PAGE / "index.html"
    if index.is_file():
        return FileResponse(index, headers={"cache-control": "no-cache"})
    return Response(_NO_PAGE, media_type="text/html")
