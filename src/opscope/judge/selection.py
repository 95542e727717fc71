"""Selects the values a watchpoint looks at: by kind of tensor, its node's name, place and type."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase

from opscope.events import TRAINING_GRAPH, Frame, Node, Output, Outside, Phase, Source
from opscope.judge.condition import ACTIVATION, GRADIENT, TENSOR, WEIGHT, Condition
from opscope.names import PARAMETER, ends_with, forward_scope, is_recompute

CLASSES = (TENSOR, WEIGHT, ACTIVATION, GRADIENT)

_ACTIVATIONS = frozenset(
    (
        *("celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh"),
        *("leaky_relu", "log_sigmoid", "log_sigmoid_forward", "_log_softmax", "log_softmax"),
        *("mish", "prelu", "_prelu_kernel", "relu", "relu6", "rrelu", "rrelu_with_noise", "selu"),
        *("sigmoid", "silu", "_softmax", "softmax", "softplus", "softshrink", "tanh", "threshold"),
    )
)


def is_watched(node: Node, include: Collection[str]) -> bool:
    """Tell whether a node is of training, or of a phase that was asked for."""
    return node.graph == TRAINING_GRAPH or str(node.phase) in include


def is_of_class(condition: Condition, cls: str, node: Node) -> bool:
    """Return whether a node's outputs are of a class, as far as a condition is about it."""
    if node.op_type == PARAMETER or (
        condition.op_types and base_type(node) not in condition.op_types
    ):
        return False
    if cls == GRADIENT:
        return is_gradient(node)
    if cls == ACTIVATION:
        return is_activation(node)
    return cls == TENSOR


def is_activation(node: Node) -> bool:
    """Tell whether the outputs of a node are activations: by its operator, never by its name."""
    return node.phase in (Phase.FORWARD, Phase.EVAL) and base_type(node) in _ACTIVATIONS


def is_gradient(node: Node) -> bool:
    """Tell whether the outputs of a node are gradients: what the backward pass computes."""
    return node.phase is Phase.BACKWARD and not is_recompute(node.scope)


def is_weight(source: Source | None) -> bool:
    """Tell whether an input is a parameter, trainable or frozen."""
    return isinstance(source, Outside) and source.kind == "parameter"


def weight_of(source: Source | None) -> str:
    """Return the name of the parameter that an input is, or nothing."""
    if isinstance(source, Outside) and source.kind == "parameter":
        return source.name
    return ""


def base_type(node: Node) -> str:
    """The operator without its in-place mark."""
    return node.op_type.removesuffix("_") if node.op_type != "_" else node.op_type


@dataclass(frozen=True)
class Selection:
    """All given parts must match; a part that is empty matches everything."""

    cls: str = ""
    """One of `CLASSES`; by default what the condition is about."""
    node: str = ""
    """A glob on the node's name, or the end of one."""
    regex: str = ""
    """A regular expression, searched for in the node's name."""
    op_type: str = ""
    scope: str = ""
    line: str = ""
    """`file.py:12` or `file.py`, of the operator or of a caller of it in the user's code."""
    parameter: str = ""
    """A glob on the parameter that a value is, is the gradient of, or is an update of."""

    def matches(self, node: Node, parameter: str = "") -> bool:
        """Return whether a node is selected; `parameter` is the one its value belongs to."""
        fits = not self.parameter or _is_parameter(self.parameter, parameter)
        return fits and self.matches_node(node)

    def matches_node(self, node: Node) -> bool:
        """Return whether a node is selected, whatever parameter its values belong to."""
        return (
            (not self.node or _names(self.node, node.name) or self.node == str(node.id))
            and (not self.regex or re.search(self.regex, node.name) is not None)
            and (not self.op_type or _is_type(self.op_type, node))
            and (not self.scope or _in_scope(self.scope, node))
            and (not self.line or at_line(node, self.line))
        )

    @property
    def names_place(self) -> bool:
        """True if it is about certain nodes or places, not about all of a kind."""
        return bool(self.node or self.regex or self.scope or self.line)

    def given(self) -> dict[str, str]:
        """The parts that are not empty, by the names they have in a file."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {("class" if k == "cls" else k): v for k, v in found.items() if v}


def parameter_of(node: Node, source: Source | None, slot: int, is_input: bool) -> str:
    """The parameter that a value is, is the gradient of or is an update of, if any."""
    if is_input:
        if isinstance(source, Outside):
            return source.name if source.kind == "parameter" else source.subject
        return source.parameter if isinstance(source, Output) else ""
    if slot < len(node.outputs) and node.outputs[slot].parameter:
        return node.outputs[slot].parameter
    return node.gradient_of or node.parameter


def at_line(node: Node, line: str) -> bool:
    """Tell whether a node ran at this line, or was called from it."""
    file, _, number = line.rpartition(":")
    if not number.isdigit():
        file, number = line, ""
    return any(_is_frame(frame, file, number) for frame in node.stack.frames if frame.user)


def _is_frame(frame: Frame, file: str, number: str) -> bool:
    same_file = frame.file == file or frame.file.endswith("/" + file.removeprefix("./"))
    return same_file and (not number or frame.line == int(number))


def _names(pattern: str, name: str) -> bool:
    if any(sign in pattern for sign in "*?["):
        return fnmatchcase(name, pattern)
    return ends_with(name, pattern)


def _is_parameter(pattern: str, parameter: str) -> bool:
    """Tell whether there is a parameter, and of that name."""
    return bool(parameter) and fnmatchcase(parameter, pattern)


def _in_scope(pattern: str, node: Node) -> bool:
    scope = forward_scope(node.scope)
    return fnmatchcase(scope, pattern) or fnmatchcase(node.scope, pattern)


def _is_type(pattern: str, node: Node) -> bool:
    names = (node.op_type, base_type(node), node.op)
    return any(fnmatchcase(name, pattern) for name in names)
