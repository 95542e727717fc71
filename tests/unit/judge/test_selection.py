"""Which values a watchpoint looks at."""

from __future__ import annotations

import pytest

from opscope.events import Frame, Node, Output, Outside, Phase, Stack
from opscope.judge.selection import (
    Selection,
    at_line,
    base_type,
    is_activation,
    is_gradient,
    is_weight,
    parameter_of,
)

STACK = Stack(
    0,
    (
        Frame("/usr/lib/torch/nn/functional.py", 12, "relu", False),
        Frame("/home/me/project/model.py", 12, "forward", True),
        Frame("/home/me/project/train.py", 30, "main", True),
    ),
)


def make_node(
    op_type: str = "relu",
    phase: Phase = Phase.FORWARD,
    scope: str = "Default/network-Net/act-ReLU",
    stack: Stack = STACK,
) -> Node:
    name = f"{scope}/{op_type}-op0"
    return Node(7, 0, name, op_type, f"aten.{op_type}.default", scope, "ReLU", phase, stack)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, True),
        ({"node": "Default/network-Net/act-ReLU/relu-op0"}, True),
        ({"node": "act-ReLU/relu-op0"}, True),
        ({"node": "relu-op0"}, True),
        ({"node": "elu-op0"}, False),
        ({"node": "*/relu-op?"}, True),
        ({"node": "relu*"}, False),
        ({"node": "7"}, True),
        ({"node": "8"}, False),
        ({"regex": r"relu-op\d$"}, True),
        ({"regex": r"^relu"}, False),
        ({"op_type": "relu"}, True),
        ({"op_type": "aten.relu.*"}, True),
        ({"op_type": "rel"}, False),
        ({"scope": "*/act-*"}, True),
        ({"scope": "Default/network-Net"}, False),
        ({"line": "model.py:12"}, True),
        ({"line": "project/model.py:12"}, True),
        ({"line": "./model.py:12"}, True),
        ({"line": "/home/me/project/model.py:12"}, True),
        ({"line": "model.py"}, True),
        ({"line": "train.py:30"}, True),
        ({"line": "model.py:1"}, False),
        ({"line": "odel.py:12"}, False),
        ({"line": "functional.py:12"}, False),
        ({"op_type": "relu", "scope": "*/other-*"}, False),
    ],
)
def test_parts(parts: dict[str, str], expected: bool) -> None:
    assert Selection(**parts).matches(make_node()) is expected


def test_backward_nodes_match_like_their_forward_ones() -> None:
    node = make_node("threshold_backward", Phase.BACKWARD, "Gradients/Default/network-Net/act-ReLU")
    assert Selection(scope="Default/network-Net/*").matches(node)
    assert Selection(scope="Gradients/*").matches(node)


def test_in_place_operators_have_the_type_they_have() -> None:
    assert base_type(make_node("relu_")) == "relu"
    assert base_type(make_node("_")) == "_"
    assert Selection(op_type="relu").matches(make_node("relu_"))


def test_parameters() -> None:
    node = make_node()
    assert Selection(parameter="fc*.weight").matches(node, "fc1.weight")
    assert not Selection(parameter="fc*.weight").matches(node, "fc1.bias")
    assert not Selection(parameter="*").matches(node), "a value that has to do with no parameter"
    assert Selection(parameter="*").matches(node, "fc1.bias")


def test_what_a_tensor_is() -> None:
    assert is_activation(make_node("relu"))
    for op_type in ("silu", "mish", "gelu", "_softmax", "silu_", "tanh", "prelu", "hardswish"):
        assert is_activation(make_node(op_type)), op_type
    assert not is_activation(make_node("addmm"))
    assert not is_activation(make_node("relu", Phase.BACKWARD))
    assert is_gradient(make_node("mm", Phase.BACKWARD, "Gradients/Default/network-Net"))
    again = make_node("relu", Phase.BACKWARD, "Gradients/recompute/Default/network-Net")
    assert not is_gradient(again)
    assert not is_gradient(make_node())
    assert is_weight(Outside("parameter", "fc.weight", "fc.weight"))
    assert not is_weight(Outside("buffer", "running_mean"))
    assert not is_weight(Output(make_node(), 0))
    assert not is_weight(None)


def test_the_parameter_of_a_value() -> None:
    node = make_node()
    assert parameter_of(node, Outside("parameter", "w", "w"), 0, True) == "w"
    assert parameter_of(node, Outside("state", "exp_avg", "w"), 0, True) == "w"
    assert parameter_of(node, Outside("batch", "x"), 0, True) == ""
    assert parameter_of(node, Output(node, 0, "w"), 0, True) == "w"
    assert parameter_of(node, None, 0, True) == ""
    node.gradient_of = "v"
    assert parameter_of(node, None, 0, False) == "v"
    node.outputs.append(Output(node, 0, "w"))
    assert parameter_of(node, None, 0, False) == "w"
    assert parameter_of(node, None, 1, False) == "v"


def test_a_node_without_a_stack_is_at_no_line() -> None:
    assert not at_line(make_node(stack=Stack(0, ())), "model.py")


def test_given() -> None:
    assert Selection().given() == {}
    assert Selection(cls="weight", node="a").given() == {"class": "weight", "node": "a"}
