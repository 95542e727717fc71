"""WE: weights that begin with one value, so that all units of a layer learn the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opscope.judge.condition import TRAINING, Condition
from opscope.judge.hits import Hit
from opscope.judge.training_check import SeenStep, TrainingCheck

_PRODUCTS = ("t", "transpose", "mm", "addmm", "bmm", "linear", "convolution", "permute", "expand")

_LOOKS = 2
"""A training looks at rows in its first step, and at those that were alike once more."""


class WeightsEqual(TrainingCheck):
    """Looks at weights when they are first seen."""

    needs_facts = True

    def start(self) -> None:
        """Begin without having seen a weight."""
        self._first: dict[str, np.void] = {}

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find weights of products that are constant to begin with.

        Zero is a way to begin with the last layer of a branch, but not with every layer.
        """
        training = self.training
        yield from self._alike(step)
        if len(self._first) == len(training.table.parameters):
            return
        fresh = {
            name: row
            for number, row in zip(training.uses[0].tolist(), training.uses[1], strict=True)
            if (name := training.table.parameters[number]) not in self._first
        }
        self._first |= fresh
        training.checked(self.watchpoint, len(fresh))
        learning = [name for name in self._first if self._is_of_product(name)]
        equal = [name for name in learning if self._is_equal(name)]
        if len(learning) < 2 or not equal:
            return
        chosen = [name for name in equal if float(self._first[name]["min"]) != 0]
        names = equal if len(equal) == len(learning) else chosen
        message = (
            "every element is the same to begin with: {}; all units of such a layer compute and "
            "learn the same: initialise with random numbers (torch.nn.init.kaiming_uniform_)"
        )
        yield from self.about(step, names, message)

    def _alike(self, step: SeenStep) -> Iterator[Hit]:
        """Find weights whose rows were all alike to begin with, and still are though they learn."""
        training = self.training
        if len(training.equal_rows) < _LOOKS:
            return
        names = [name for name in training.equal_rows[1] if name in training.equal_rows[0]]
        moving = [n for n in names if training.is_trained(n) and training.has_changed(n)]
        message = (
            "all rows are alike, in the first step and after some updates still: {}; units that "
            "begin alike learn the same and count as one: initialise with random numbers "
            "(torch.nn.init.kaiming_uniform_)"
        )
        yield from self.about(step, moving, message)

    def _is_equal(self, name: str) -> bool:
        row = self._first[name]
        return bool(row["kind"] == 0 and row["min"] == row["max"])

    def _is_of_product(self, name: str) -> bool:
        node, kind = self.training.first_use(name), None
        kind = self.training.kind_of(int(self._first[name]["shape"]))
        wide = kind is not None and len(kind[1]) > 1 and min(kind[1][:2]) > 1
        read = node is not None and node.op_type in _PRODUCTS
        return wide and read and self.training.is_trained(name)


WEIGHTS_EQUAL = Condition(
    "WE",
    "weights_equal",
    TRAINING,
    "the weights of a layer all begin with one value",
    training=WeightsEqual,
)
