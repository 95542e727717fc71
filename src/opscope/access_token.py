"""The secret between a server and whoever may ask it: this user, or who was given it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from opscope.errors import OpscopeError
from opscope.user_state import state_directory

TOKEN_VARIABLE = "OPSCOPE_TOKEN"
_LEAST = 16


def own_token() -> str:
    """The token of this user: from the environment, or one that the user's own file keeps."""
    given = os.environ.get(TOKEN_VARIABLE, "")
    if given:
        if len(given) < _LEAST or not given.isascii() or not given.isprintable() or " " in given:
            raise OpscopeError(
                f"{TOKEN_VARIABLE} must have at least {_LEAST} characters, without spaces"
            )
        return given
    return _kept_token(state_directory() / "token")


def _kept_token(path: Path) -> str:
    """The token in a file that only this user can read; made if there is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "w") as file:
            token = secrets.token_urlsafe(24)
            file.write(token)
            return token
    except FileExistsError:
        return _read_token(path)
    except OSError as error:
        raise OpscopeError(f"{path}: {error.strerror}; give a token in {TOKEN_VARIABLE}") from None


def _read_token(path: Path) -> str:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid != os.getuid() or facts.st_mode & 0o077:
                raise OpscopeError(f"{path} can be read by others: remove it, and run again")
            token = file.read(256).strip()
    except OSError as error:
        raise OpscopeError(f"{path}: {error.strerror}; give a token in {TOKEN_VARIABLE}") from None
    if len(token) < _LEAST:
        raise OpscopeError(f"{path} holds no token: remove it, and run again")
    return token
