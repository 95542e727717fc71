"""Numbers that the script takes out of torch without an operator: by `tolist`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from opscope.capture.failures import report_failure
from opscope.capture.guards import quiet
from opscope.capture.torch_program import TorchProgram
from opscope.events import Phase


class TakenNumbers:
    """Notes the calls of a step whose outputs the script has looked at in this way."""

    def __init__(self, program: TorchProgram) -> None:
        self._watch = program.watch
        program.patches.wrap(Tensor, "tolist", self._taking)

    def _taking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def tolist(tensor: Tensor) -> Any:
            # Where functions of torch are disabled it is opscope itself that looks.
            if self._watch.recording and torch._C._is_torch_function_enabled():
                try:
                    self._note(tensor)
                except Exception as error:  # noqa: BLE001 - watching must never end training
                    report_failure(error)
            return original(tensor)

        return tolist

    def _note(self, tensor: Tensor) -> None:
        with quiet():
            call = self._watch.known.call_of(self._watch.key(tensor))
        calls = self._watch.calls
        if 0 <= call < len(calls.nodes) and calls.nodes[call].phase is not Phase.EVAL:
            calls.taken.add(call)
