"""`SaveCallback`: keeps the checkpoint with the best accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opscope.train.callback import Callback
from opscope.train.checkpoints import save_checkpoint
from opscope.train.run_context import RunContext


class SaveCallback(Callback):
    """Evaluates after each step, and saves `{accuracy}.ckpt` when the accuracy is the best so far.

    `every` evaluates after so many steps only; `metric` is the name of what is compared.
    """

    def __init__(
        self,
        eval_model: Any,
        ds_eval: Any,
        *,
        every: int = 1,
        metric: str = "accuracy",
        directory: str = "./",
    ) -> None:
        self.model = eval_model
        self.ds_eval = ds_eval
        self.acc = 0.0
        self._every = every
        self._metric = metric
        self._directory = Path(directory)

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Evaluate, and save if it is better."""
        arguments = run_context.original_args()
        if arguments.cur_step_num % self._every:
            return
        result = self.model.eval(self.ds_eval)
        if result[self._metric] > self.acc:
            self.acc = result[self._metric]
            file = self._directory / f"{self.acc}.ckpt"
            save_checkpoint(save_obj=arguments.train_network, ckpt_file_name=file)
            print(f"Save the maximum accuracy checkpoint,the accuracy is {self.acc}", flush=True)
