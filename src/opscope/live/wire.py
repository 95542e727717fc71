"""The messages between a training and a server: JSON objects, one per WebSocket message."""

from __future__ import annotations

import json
from typing import Any

from opscope.errors import OpscopeError
from opscope.rundir.jsonlines import dumps

VERSION = 1
PATH = "/training"
"""Where trainings connect on a server."""
MOST_BYTES = 64 << 20
"""The largest message."""
REFUSED, WRONG_VERSION = 4401, 4426
"""Codes with which a server closes a connection it does not want."""

Message = dict[str, Any]


def encode(message: Message) -> str:
    """A message as text."""
    return dumps(message)


def decode(text: str | bytes) -> Message:
    """The message in a text; an error if it is none."""
    if len(text) > MOST_BYTES:
        raise OpscopeError("a message is too long")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise OpscopeError("a message is no JSON") from None
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise OpscopeError("a message has no kind")
    return message
