"""`Watch`: watchpoints, statistics and dumps for the training of a Model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opscope.train.callback import Callback
from opscope.train.callbacks.monitored import as_number
from opscope.train.run_context import RunContext
from opscope.train.watching import Watching

if TYPE_CHECKING:
    from opscope.judge.hits import Hit


class Watch(Callback):
    """Watches training with the options of `opscope.start`: `watch`, `dump`, `steps`, `on_hit` …

    Under `opscope run` it takes part in what runs already.
    """

    def __init__(self, **options: Any) -> None:
        self._watching = Watching(options)

    @property
    def hits(self) -> list[Hit]:
        """The hits of watchpoints so far."""
        return self._watching.hits

    def __enter__(self) -> Watch:
        self._watching.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._watching.stop(exc[1])

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Keep the results of evaluations beside what is recorded."""
        arguments = run_context.original_args()
        results = arguments.get("eval_results") or {}
        if results:
            numbers = {f"eval_{name}": as_number(value) for name, value in results.items()}
            self._watching.log(numbers, arguments.cur_step_num)
