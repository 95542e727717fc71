"""The label of each operator and parameter, made when it is first met."""

from __future__ import annotations

from opscope.dump import csvtext
from opscope.dump.names import NameBook, safe
from opscope.dump.subject import Label


class LabelBook:
    """Labels by graph, op type and full name."""

    def __init__(self) -> None:
        self._names = NameBook()
        self.by_number: dict[int, Label] = {}
        self._labels: dict[tuple[int, str, str], Label] = {}

    def label(self, graph: int, op_type: str, full_name: str) -> Label:
        """The label of an operator or parameter of this graph."""
        key = graph, op_type, full_name
        label = self._labels.get(key)
        if label is None:
            label = self._labels[key] = self._new(graph, op_type, full_name)
            self.by_number[label.id] = label
        return label

    def _new(self, graph: int, op_type: str, full_name: str) -> Label:
        prefix = f"{safe(op_type)}.{self._names.op_name(graph, op_type, full_name)}"
        head = f"{csvtext.field(op_type)},{csvtext.field(full_name)}"
        return Label(len(self._labels), prefix, head, full_name)
