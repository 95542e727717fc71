"""The grammar of node names and scopes, which are built and taken apart here only.

A scope is a path of levels, `Default/network-AlexNet/conv3-Conv2d`: each is `attribute-Class`, or
the attribute alone. A node's name is its scope, its operator's type and a number:
`Default/network-AlexNet/conv3-Conv2d/convolution-op0`. What the backward pass runs stands below
`Gradients/`, and what it computes once more for a checkpoint below `Gradients/recompute/`.
Everything may import this module; it imports nothing of opscope.
"""

from __future__ import annotations

import re

ROOT = "Default"
GRADIENTS = "Gradients/"
RECOMPUTE = "Gradients/recompute/"
PARAMETER = "Parameter"
"""The type of a node that stands for a parameter itself, as dumps have them."""
_OPTIMIZER = "optimizer"
_INDEX = re.compile(r"-op[0-9]+")


def node_name(scope: str, op_type: str, index: int) -> str:
    """Name a node.

    >>> node_name("Default/network-Net", "relu", 2)
    'Default/network-Net/relu-op2'
    """
    return f"{scope}/{op_type}-op{index}"


def level(attribute: str, cls: str, with_class: bool = True) -> str:
    """Name one level of a scope: a module by its attribute and its class."""
    return f"{attribute}-{cls}" if with_class else attribute


def optimizer_level(cls: str, with_class: bool = True) -> str:
    """Name the level of an optimizer."""
    return level(_OPTIMIZER, cls, with_class)


def attribute_of(scope: str) -> str:
    """Return the attribute of a scope's last level.

    >>> attribute_of("Default/network-Net/conv1-Conv2d")
    'conv1'
    """
    return last_part(scope).partition("-")[0]


def last_part(name: str) -> str:
    """Return what stands behind the last slash."""
    return name.rpartition("/")[2]


def last_parts(name: str, count: int) -> str:
    """Return the last so many parts of a name."""
    return "/".join(name.split("/")[-count:])


def parent_of(name: str) -> str:
    """Return what stands before the last slash: a node's scope, or the scope around one."""
    return name.rpartition("/")[0]


def without_index(name: str) -> str:
    """Return the name, or part of one, without its last number.

    >>> without_index("relu-op2")
    'relu'
    """
    head, _, tail = name.rpartition("-op")
    return head if tail.isdigit() else name


def has_index(name: str) -> bool:
    """Return whether a node's name, number included, may be meant."""
    return _INDEX.search(name) is not None


def type_in(name: str) -> str:
    """Return the operator type that a node's name ends with."""
    return without_index(last_part(name))


def is_below(name: str, scope: str) -> bool:
    """Return whether a name lies in a scope."""
    return name.startswith(scope.rstrip("/") + "/")


def ends_with(name: str, end: str) -> bool:
    """Return whether a name is another one, or ends with it as a whole part."""
    return name == end or name.endswith("/" + end)


def forward_scope(scope: str) -> str:
    """Return the scope that a gradient belongs to; a forward scope is returned as it is."""
    return scope.removeprefix(GRADIENTS)


def module_scope(scope: str) -> str:
    """Return the scope of the module that ran, be it in the backward pass or once more."""
    return scope.removeprefix(RECOMPUTE).removeprefix(GRADIENTS)


def is_backward(scope: str) -> bool:
    """Return whether the backward pass runs in this scope."""
    return f"{scope}/".startswith(GRADIENTS)


def is_recompute(scope: str) -> bool:
    """Return whether a checkpoint is computed once more in this scope."""
    return scope.startswith(RECOMPUTE)


def is_optimizer(scope: str) -> bool:
    """Return whether an optimizer steps in this scope."""
    return scope.startswith(f"{ROOT}/{_OPTIMIZER}-")
