"""Answers as JSON, in opscope's own way: NaN, infinities and huge integers are strings."""

from __future__ import annotations

from typing import Any

from fastapi.responses import Response

from opscope.rundir.jsonlines import encode, encode_plain

JSON = "application/json"


def answer(data: Any, status: int = 200) -> Response:
    """Plain data as a response; not kept by browsers, as it changes while training runs."""
    return Response(encode(data), status, {"cache-control": "no-store"}, JSON)


def answer_plain(data: Any) -> Response:
    """The same of data whose numbers are finite and exact in JSON: ten times as fast."""
    return Response(encode_plain(data), 200, {"cache-control": "no-store"}, JSON)
