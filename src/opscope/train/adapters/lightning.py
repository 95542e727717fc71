"""A callback for the Trainer of Lightning."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from opscope.train.needs import need
from opscope.train.watching import Watching

if TYPE_CHECKING:
    from opscope.judge.hits import Hit


def _base() -> Any:
    """The callback of Lightning, under its new name or its old one."""
    new = importlib.util.find_spec("lightning") is not None
    return need("lightning.pytorch" if new else "pytorch_lightning", "this callback").Callback


class OpscopeCallback(_base()):  # type: ignore[misc]
    """Watches what `Trainer.fit` trains; the options are those of `opscope.start`.

    >>> Trainer(callbacks=[OpscopeCallback(watch="recommended")])  # doctest: +SKIP
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._watching = Watching(options)

    @property
    def hits(self) -> list[Hit]:
        """The hits of watchpoints so far."""
        return self._watching.hits

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to watch."""
        self._watching.start()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Keep what was logged beside what is recorded."""
        self._watching.log(trainer.callback_metrics, trainer.global_step)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Training ends by an error."""
        self._watching.stop(exception)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """End watching."""
        self._watching.stop()
