"""The messages between a training and a server: JSON objects, one per WebSocket message.

A message with bytes is binary: the length of its JSON in four bytes, the JSON, the bytes.
"""

from __future__ import annotations

import json
from typing import Any

from opscope.errors import OpscopeError
from opscope.rundir.jsonlines import dumps

VERSION = 2
PATH = "/training"
"""The path on a server at which trainings connect."""
MOST_BYTES = 64 << 20
"""The largest message."""
REFUSED, WRONG_VERSION = 4401, 4426
"""Codes with which a server closes a connection it does not want."""
_LENGTH = 4

Message = dict[str, Any]


def encode(message: Message) -> str | bytes:
    """A message as text, or as bytes if its `data` are."""
    data = message.get("data")
    if not isinstance(data, bytes):
        return dumps(message)
    head = dumps({name: value for name, value in message.items() if name != "data"}).encode()
    return len(head).to_bytes(_LENGTH, "little") + head + data


def decode(content: str | bytes) -> Message:
    """The message in a text or in bytes; an error if it is none."""
    if len(content) > MOST_BYTES:
        raise OpscopeError("a message is too long")
    if isinstance(content, str):
        return _parse(content)
    end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    if end > len(content):
        raise OpscopeError("a message is cut short")
    return {**_parse(content[_LENGTH:end]), "data": bytes(content[end:])}


def _parse(text: str | bytes) -> Message:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise OpscopeError("a message is no JSON") from None
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise OpscopeError("a message has no kind")
    return message
