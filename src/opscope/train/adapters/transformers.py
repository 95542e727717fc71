"""A callback for the Trainer of Hugging Face Transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opscope.train.needs import need
from opscope.train.watching import Watching

if TYPE_CHECKING:
    from opscope.judge.hits import Hit

_Base: Any = need("transformers", "this callback").TrainerCallback


class OpscopeCallback(_Base):  # type: ignore[misc]
    """Watches what a Trainer trains; the options are those of `opscope.start`.

    >>> Trainer(model, args, callbacks=[OpscopeCallback(watch="recommended")])  # doctest: +SKIP
    """

    def __init__(self, **options: Any) -> None:
        self._watching = Watching(options)

    @property
    def hits(self) -> list[Hit]:
        """The hits of watchpoints so far."""
        return self._watching.hits

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Begin to watch."""
        self._watching.start()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **more: Any
    ) -> None:
        """Keep what the Trainer logs beside what is recorded."""
        self._watching.log(logs or {}, state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """End watching."""
        self._watching.stop()
