"""The element to blame, where inputs are spread over others."""

from __future__ import annotations

from typing import Any

import torch

from opscope.events import Node, Outside, Phase, Source, Stack
from opscope.judge.origin.birth import Bad, Birth
from opscope.watch.culprit import culprit


def said(*sources: Source, op: str = "div", **values: Any) -> str:
    place = f"Default/{op}-op0", op, f"aten.{op}.Tensor", "Default", "", Phase.FORWARD, Stack(0, ())
    node = Node(0, 0, *place, sources=list(sources))
    named = {key.replace("_", "."): value for key, value in values.items()}
    return culprit(Birth(node, 0, 0, Bad(1, 1, 0, 0, 0)), named, {})


def test_a_divisor_that_is_spread_over_a_row() -> None:
    above, below = torch.ones(3, 1, 4), torch.tensor([1.0, 0.0, 2.0]).view(3, 1, 1)
    assert said(input_0=above, input_1=below, output_0=above / below) == (
        "output 0 is bad first at [1, 0, 0], where input 0 is 1 and input 1 is 0"
    )


def test_inputs_of_another_form_are_left_out() -> None:
    bad = torch.full((2, 2), torch.inf)
    assert said(input_0=torch.ones(2, 3), input_1=torch.ones(2), output_0=bad) == (
        "output 0 is bad first at [0, 0]"
    )


def test_numbers_of_any_kind() -> None:
    bad = torch.tensor([1.0, torch.nan])
    given = {
        "input_0": torch.tensor([1 + 1j, 2j]),
        "input_1": torch.tensor([True, False]),
        "input_2": torch.tensor([1, -(2**53)]),
    }
    assert said(**given, output_0=bad).startswith(
        "output 0 is bad first at [1], where input 0 is 0+2j and input 1 is False"
    )
    assert said(input_0=given["input_2"], output_0=bad).endswith("input 0 is -9.0072e+15")


def test_a_parameter_of_which_one_element_is_zero() -> None:
    above, scale = torch.ones(2, 3), torch.tensor([1.0, 0.0, 2.0])
    sources = Outside("batch", "x"), Outside("parameter", "scale")
    assert said(*sources, input_0=above, input_1=scale, output_0=above / scale) == (
        "output 0 is bad first at [0, 1], where input 0 is 1 and the parameter scale is 0"
    )


def test_a_product_of_rows_has_no_place_in_its_inputs() -> None:
    large = torch.full((2, 2), 1e30)
    told = said(op="mm", input_0=large, input_1=large, output_0=large @ large)
    assert told == "output 0 is bad first at [0, 0]"
