"""Sees operators with NaN or Inf in their outputs while their tensors are at hand, on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opscope.events import DATA_GRAPH, SETUP_GRAPH, Node
from opscope.judge.origin.birth import Birth
from opscope.stats.native_cpu import row_of_tensor
from opscope.stats.torch_values import storage_start, unsupported_reason
from opscope.watch.culprit import first_bad

_BEFORE = (SETUP_GRAPH, DATA_GRAPH)
_CALLS = 4
_BYTES = 256 << 20


class Witness:
    """Keeps copies of what the first operators of a step with sound inputs and bad outputs saw."""

    def __init__(self) -> None:
        self._bad_inputs: dict[tuple[int, int], list[int]] = {}
        self._kept: dict[tuple[int, int], dict[str, Any]] = {}
        self._places: dict[tuple[int, int], dict[int, list[int]]] = {}
        """Of the first calls that read something bad: where in each input it is."""
        self._room = _BYTES
        self.on_suspect: Callable[[], None] = lambda: None
        """Called when something looks wrong for the first time in a step."""
        self._harmless: set[int] = set()
        self._seen: set[int] = set()

    def see(
        self, node: Node, call: int, has_nan: bool, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """Keep what is known of an operator whose outputs are not all finite."""
        if node.graph in _BEFORE or (node.id in self._harmless and not has_nan):
            return
        self._seen.add(node.id)
        written = {storage_start(tensor) for tensor in outputs if tensor is not None}
        read = {s: t for s, t in enumerate(inputs) if storage_start(t) not in written}
        bad = [slot for slot, tensor in read.items() if _is_bad(tensor)]
        if bad:
            self._bad_inputs[node.id, call] = bad
            if len(self._places) < _CALLS:
                self._places[node.id, call] = {slot: first_bad(read[slot]) for slot in bad}
        elif len(self._kept) < _CALLS:
            self.on_suspect()
            self._keep(node, call, read, outputs)

    def bad_inputs(self, node: Node, call: int) -> Sequence[int]:
        """The inputs of a call that were seen to hold NaN or Inf."""
        return self._bad_inputs.get((node.id, call), ())

    def values(self, birth: Birth) -> dict[str, Any]:
        """The inputs and outputs of a call, as far as they were kept."""
        return self._kept.get((birth.node.id, birth.call), {})

    def entered(self, birth: Birth) -> dict[int, list[int]]:
        """By input of a call: the place of its first bad element, as far as it was looked for."""
        return self._places.get((birth.node.id, birth.call), {})

    def end_step(self, at_fault: Iterable[Node]) -> None:
        """End the step: operators that made infinities without fault do so on purpose."""
        if self._seen:
            self._harmless |= self._seen - {node.id for node in at_fault}
            self._seen.clear()
            self._kept.clear()
            self._places.clear()
            self._bad_inputs.clear()
            self._room = _BYTES

    def _keep(self, node: Node, call: int, inputs: dict[int, Any], outputs: Sequence[Any]) -> None:
        tensors = {f"input.{slot}": tensor for slot, tensor in inputs.items()}
        tensors |= {f"output.{s}": t for s, t in enumerate(outputs) if t is not None}
        tensors = {k: t for k, t in tensors.items() if not unsupported_reason(t)}
        size = sum(t.numel() * t.element_size() for t in tensors.values())
        if size <= self._room:
            self._room -= size
            self._kept[node.id, call] = {k: t.detach().clone() for k, t in tensors.items()}


def _is_bad(tensor: Any) -> bool:
    if not tensor.is_cpu or unsupported_reason(tensor):
        return False
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    row = row_of_tensor(tensor.detach())
    return row.finite < row.count
