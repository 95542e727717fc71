"""Answers of a server are as its description says."""

from __future__ import annotations

import functools
from typing import Any, get_type_hints

from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from opscope.server import control_routes


def forbid_more(model: Any, seen: set[Any]) -> None:
    """Have pydantic refuse keys that a TypedDict does not name."""
    if hasattr(model, "__total__") and model not in seen:
        seen.add(model)
        model.__pydantic_config__ = {"extra": "forbid"}
        for hint in get_type_hints(model).values():
            forbid_more(hint, seen)
    for part in getattr(model, "__args__", ()):
        forbid_more(part, seen)


def check_live_answer(method: str, path: str, answer: Any) -> None:
    """An answer of live control has the form that the route at this path promises."""
    for route in control_routes.router.routes:
        is_it = isinstance(route, APIRoute) and method in route.methods
        if is_it and route.path_regex.match(path) and route.response_model is not None:
            _adapter(route.path, method).validate_python(answer)


@functools.cache
def _adapter(path: str, method: str) -> TypeAdapter[Any]:
    (route,) = (
        route
        for route in control_routes.router.routes
        if isinstance(route, APIRoute) and route.path == path and method in route.methods
    )
    forbid_more(route.response_model, set())
    return TypeAdapter(route.response_model)
