"""The argument of callbacks: a dict of what is known about training, and a way to end it."""

from __future__ import annotations

from typing import Any


class MissingArgumentError(AttributeError, KeyError):
    """Nobody has set an argument of this name; both ways of asking for it find this."""

    def __str__(self) -> str:
        return str(self.args[0])


class Arguments(dict[str, Any]):
    """The result of `RunContext.original_args()`: a dict whose entries are attributes too.

    >>> arguments = Arguments(epoch_num=2)
    >>> arguments.init_time = 0.5
    >>> arguments.epoch_num, arguments["init_time"]
    (2, 0.5)
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(sorted(self))
            raise MissingArgumentError(f"there is no {name} here, only: {known}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise MissingArgumentError(f"there is no {name} to delete") from None


class RunContext:
    """One training or evaluation, as its callbacks see it."""

    def __init__(self, original_args: Arguments) -> None:
        self._original_args = original_args
        self._stop_requested = False

    def original_args(self) -> Arguments:
        """Return what is known: read it, change it, add to it."""
        return self._original_args

    def request_stop(self) -> None:
        """Ask for an end after this step: no more steps, but epoch_end and end are called."""
        self._stop_requested = True

    def get_stop_requested(self) -> bool:
        """Tell whether an end was asked for."""
        return self._stop_requested
