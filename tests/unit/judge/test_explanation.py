"""What the verdict says of each kind of fault: the number that matters, and advice that fits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers.watched import one_step, watched
from opscope.events import TRAINING_GRAPH, Node, Phase, Stack
from opscope.judge.explanation import Case, SeenValue, explain
from opscope.judge.origin.birth import Bad, Birth
from opscope.judge.origin.verdict import text
from opscope.stats.numpy_stats import row_of

INF, NAN = math.inf, math.nan
HALF = torch.float16
FILLS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 15)
"""From 2.15 on `x[0, 0] = number` fills; before, it copies from a tensor that holds the number."""

FORWARD: list[tuple[str, Any, Any, str, str]] = [
    ("log of 0", lambda p, x: p * x.log(), [0.0, 2], "log of 0 → 1 -Inf of 2; input min is 0.0",
     "torch.log(x.clamp_min(1e-8))"),
    ("log of a negative", lambda p, x: p * x.log(), [-2.5, 2],
     "log of a negative number → 1 NaN of 2; input min is -2.5", "must be above 0"),
    ("log1p of -1", lambda p, x: p * x.log1p(), [-1.0, 2], "log1p of -1 → 1 -Inf of 2",
     "clamp_min(-1 + 1e-6)"),
    ("log1p below", lambda p, x: p * x.log1p(), [-3.0, 2], "log1p of a number below -1",
     "above -1"),
    ("xlogy", lambda p, x: torch.xlogy(p, x), [0.0, 2], "xlogy of 0", "torch.xlogy(x, y.clamp"),
    ("logit of 1", lambda p, x: p * x.logit(), [0.5, 1.0],
     "logit of 0 or 1 → 1 +Inf of 2; input is from 0.5 to 1.0", "torch.logit(x, eps=1e-6)"),
    ("logit outside", lambda p, x: p * x.logit(), [0.5, 1.5], "logit outside its range [0, 1]",
     "eps"),
    ("sqrt", lambda p, x: p * x.sqrt(), [-0.25, 1], "sqrt of a negative number → 1 NaN of 2; "
     "input min is -0.25", "check how it got there"),
    ("sqrt after rounding", lambda p, x: p * x.sqrt(), [-1e-5, 1], "input min is -1e-05",
     "torch.sqrt(x.clamp_min(0) + eps)"),
    ("log of a sum of exp", lambda p, x: (p * x).exp().sum(-1).log(), [[-200.0, -300]],
     "the sum before it has run down to 0.0", "torch.logsumexp of the logarithms"),
    ("log of a product", lambda p, x: (p * x).cumprod(0).log(), [1e-30, 1e-30],
     "the product before it has run down to 0.0", "torch.cumsum of the logarithms"),
    ("log of a plain sum", lambda p, x: (p * x).sum(-1).log(), [[-1.0, 1]],
     "log of 0 → 1 -Inf of 1; input min is 0.0", "clamp the input"),
    ("nothing left of a row", lambda p, x: (p * x).masked_fill(x[:, :1] > 1, -INF).logsumexp(1),
     [[1.0, 2], [2, 3]], "logsumexp of rows in which everything is -Inf", "leave rows without any"),
    ("inf minus inf", lambda p, x: (q := (p * x).masked_fill(x > 1, -INF)) - q.amin(0), [1.0, 2],
     "Inf - Inf → 1 NaN", "both sides are infinite"),
    ("rsqrt", lambda p, x: p * x.rsqrt(), [0.0, 1], "rsqrt of 0 → 1 +Inf of 2",
     "torch.rsqrt(x + eps)"),
    ("division", lambda p, x: p / x, [0.0, 1], "division by 0 → 1 +Inf of 2; 1 of 2 divisors are 0",
     "x / (y + eps)"),
    ("0 / 0", lambda p, x: p * x / x, [0.0, 1], "0 / 0 → 1 NaN of 2; 1 of 2 divisors are 0", "eps"),
    ("a number that is 0", lambda p, x: p * x / 0.0, [1.0, 2],
     "division by 0 → 2 +Inf of 2; the divisor is 0.0", "the number 0.0"),
    ("1 / x", lambda p, x: p * (1 / x), [0.0, 0, 1], "division by 0 → 2 +Inf of 3; 2 of 3 divisors",
     "keep the divisor away from 0"),
    ("std", lambda p, x: p * x / x.std(), [3.0, 3], "the standard deviation of equal", "std + eps"),
    ("norm", lambda p, x: p * x / x.norm(), [0.0, 0], "the norm of a vector of zeros", "normalize"),
    ("empty mask", lambda p, x: p * x.sum() / (x > 9).sum(), [1.0, 2], "a sum over nothing",
     "clamp_min(1)"),
    ("power of a negative", lambda p, x: p * x**0.3, [-8.0, 1],
     "fractional exponent → 1 NaN of 2; base min is -8.0", "x.abs()"),
    ("power of 0", lambda p, x: p * x**-1.5, [0.0, 1],
     "pow of 0 with a negative exponent → 1 +Inf of 2; 1 of 2 bases are 0", "eps to the base"),
    ("power that overflows", lambda p, x: p * x**50.5, [0.0, 10],
     "pow overflows float32 → 1 +Inf of 2; the largest base is 10.0", "exponent"),
    ("acos", lambda p, x: p * x.acos(), [1.25, 0], "input is from 0.0 to 1.25",
     "x.clamp(-1 + eps, 1 - eps)"),
    ("acosh", lambda p, x: p * x.acosh(), [0.5, 2], "acosh outside its range [1, inf]",
     "x.clamp_min(1)"),
    ("exp", lambda p, x: p * x.exp(), [100.0, 1],
     "input max is 100.0, float32 holds exp(x) up to x = 88.7", "subtract the maximum"),
    ("exp2", lambda p, x: p * x.exp2(), [200.0, 1], "exp2(x) up to x = 128", "maximum"),
    ("layer norm", lambda p, x: F.layer_norm(p * x, (2,), eps=0.0), [[1.0, 1.0]],
     "standard deviation of 0 with eps 0 → 2 NaN of 2", "1e-5 is usual"),
    ("product", lambda p, x: p * x * x, [1e30, 1],
     "mul overflows float32 → 1 +Inf of 2; the largest input is 1e+30", "initialisation"),
    ("cumprod", lambda p, x: (p * x).cumprod(0), [1e20, 1e20],
     "cumprod overflows float32", "add logarithms"),
    ("masked row", lambda p, x: (p * x).masked_fill(x > 0, -INF).softmax(-1), [1.0, 2],
     "softmax of rows in which everything is masked with -Inf → 2 NaN of 2",
     "a row must keep at least one position"),
    ("inf times 0", lambda p, x: (p * x).masked_fill(x > 1, -INF) * 0, [1.0, 2],
     "Inf · 0 → 1 NaN of 2; the infinities were written on purpose", "before it is filled"),
    ("batch", lambda p, x: p * x, [NAN, 2], "1 NaN of 2 came in with the batch input0, first read "
     "by mul", "torch.isfinite(batch).all()"),
    ("anything", lambda p, x: p * torch.special.zeta(x, x), [1.0, 2], "special_zeta turned sound "
     "inputs into 1 +Inf of 2; input 0 is from 1.0 to 2.0", "whether special_zeta is defined"),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "batch", "what", "advice"), [c[1:] for c in FORWARD],
                         ids=[c[0] for c in FORWARD])  # fmt: skip
def test_forward(formula: Any, batch: Any, what: str, advice: str, tmp_path: Path) -> None:
    verdict = one_step(tmp_path, formula, batch, quick=True).verdict
    assert what in verdict["what"], verdict["what"]
    assert advice in verdict["advice"], verdict["advice"]


BACKWARD: list[tuple[str, Any, Any, str, str]] = [
    ("sqrt", lambda p, x: (p * x).sqrt(), [0.0, 1],
     "the gradient of sqrt is not finite: div → 1 +Inf of 2; an input of it has 1 zero",
     "torch.sqrt(x + eps), with eps inside"),
    ("where", lambda p, x: torch.where(x > 0, (p * x).sqrt(), 0.0), [0.0, 1],
     "the gradient of sqrt is not finite", "a torch.where or a mask behind it does not help"),
    ("acos", lambda p, x: (p * x).acos(), [1.0, 0], "the gradient of acos is not finite",
     "infinite derivative at ±1"),
    ("power", lambda p, x: (p * x) ** 0.5, [0.0, 1], "the gradient of pow is not finite",
     "infinite at 0 for p < 1"),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "batch", "what", "advice"), [c[1:] for c in BACKWARD],
                         ids=[c[0] for c in BACKWARD])  # fmt: skip
def test_backward(formula: Any, batch: Any, what: str, advice: str, tmp_path: Path) -> None:
    verdict = one_step(tmp_path, formula, batch, quick=True).verdict
    assert verdict["phase"] == "backward"
    assert what in verdict["what"], verdict["what"]
    assert advice in verdict["advice"], verdict["advice"]


def _with_a_number(p: Any, x: Any) -> Any:
    made = p * x
    made[0] = float("nan")
    return made


def test_a_number_of_the_script_is_not_the_batch(tmp_path: Path) -> None:
    verdict = one_step(tmp_path, _with_a_number, [1.0, 2], quick=True).verdict
    assert "where that number comes from" in verdict["advice"]
    if FILLS:
        assert verdict["what"] == "fill_ was asked to fill with NaN (value=nan) → 1 NaN of 1"
        return
    assert verdict["what"] == "copy_ writes a number of the script: 1 NaN of 1"
    assert text(verdict)[0].endswith("rank 0: the script wrote it, as a number")


def _written_by_numpy(p: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
    made = p * x
    made.detach().numpy()[0] = math.nan
    return made.clone()


def test_memory_that_was_written_to_without_an_operator(tmp_path: Path) -> None:
    verdict = one_step(tmp_path, _written_by_numpy, [1.0, 2]).verdict
    assert verdict["what"].startswith("clone only copies, and copied 1 NaN of 2")
    assert ".numpy()" in verdict["advice"]


def test_half_precision(tmp_path: Path) -> None:
    verdict = one_step(tmp_path, lambda p, x: p * x * x, [300.0, 1], dtype=HALF).verdict
    assert "mul leaves the range of float16 (±65504)" in verdict["what"]
    assert "the largest input is 300.0" in verdict["what"]
    assert "bfloat16" in verdict["advice"]
    verdict = one_step(tmp_path / "log", lambda p, x: p * x.log(), [0.0, 1], dtype=HALF).verdict
    assert "clamp_min(1e-6)" in verdict["advice"], "1e-8 is 0 in float16"
    backward = one_step(
        tmp_path / "backward", lambda p, x: (p * x).float() * 1e5, [1.0, 2], dtype=HALF
    ).verdict
    assert "the gradient leaves the range of float16" in backward["what"]
    assert "GradScaler" in backward["advice"]


def test_a_normalisation_of_huge_inputs(tmp_path: Path) -> None:
    verdict = one_step(tmp_path, lambda p, x: F.layer_norm(p * x, (2,)), [[3e30, 1.0]]).verdict
    assert "the largest input is 3e+30" in verdict["what"]
    assert "huge inputs overflow in their squares" in verdict["advice"]


def test_the_optimizer_divides_by_zero(tmp_path: Path) -> None:
    with watched(tmp_path, on_hit="log", save_state="none") as found:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.Adam(model.parameters(), 0.1, eps=0.0, foreach=False)
        (model(torch.zeros(2, 2)) * 0).sum().backward()
        optimizer.step()
    assert found.verdict["phase"] == "optimizer"
    assert "divides by zero" in found.verdict["what"]
    assert "eps above 0" in found.verdict["advice"]


def test_the_update_is_too_large(tmp_path: Path) -> None:
    with watched(tmp_path, on_hit="log", save_state="none") as found:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), 1e38)
        (model(torch.ones(2, 2)) * 1e3).sum().backward()
        optimizer.step()
    assert "overflows" in found.verdict["what"]
    assert "lower the learning rate" in found.verdict["advice"]


def test_the_rate_is_infinite(tmp_path: Path) -> None:
    with watched(tmp_path, on_hit="log", save_state="none") as found:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        optimizer.param_groups[0]["lr"] = INF
        model(torch.ones(2, 2)).sum().backward()
        optimizer.step()
    assert "the factor before it, which comes of the learning rate, is" in found.verdict["what"]
    assert "check what schedules it" in found.verdict["advice"]


def test_a_state_that_was_spoilt_unseen(tmp_path: Path) -> None:
    with watched(tmp_path, on_hit="log", save_state="none") as found:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.Adam(model.parameters(), foreach=False)
        for step in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 2)).sum().backward()
            if step:
                optimizer.state[model.weight]["exp_avg"].numpy()[0, 1] = NAN
            optimizer.step()
    assert "in the optimizer's state weight.exp_avg" in found.verdict["what"]
    assert "checkpoint" in found.verdict["advice"]


def test_a_file_with_a_nan(tmp_path: Path) -> None:
    """What is loaded while training runs is not memory that nobody has written."""
    torch.save({"scale": torch.tensor([1.0, NAN])}, tmp_path / "file.pt")

    def formula(p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return p * x * torch.load(tmp_path / "file.pt")["scale"]

    verdict = one_step(tmp_path / "run", formula, [1.0, 2]).verdict
    assert verdict["op_type"] == "set_"
    assert "1 NaN of 2 came in with memory that was loaded from a file" in verdict["what"]
    assert verdict["code"].startswith("return p * x * torch.load")


def test_a_negative_running_variance(tmp_path: Path) -> None:
    model = nn.BatchNorm1d(2)
    model.running_var.fill_(-2.0)
    model.eval()
    verdict = one_step(tmp_path, model.forward, [[1.0, 2.0]], model=model).verdict
    assert "a running variance that is negative → 2 NaN of 2; its min is -2.0" in verdict["what"]
    assert "running_var" in verdict["advice"]


def test_parameters_and_buffers_from_before(tmp_path: Path) -> None:
    model = nn.BatchNorm1d(2)
    model.running_mean.fill_(NAN)
    model.eval()
    found = one_step(tmp_path, model.forward, [[1.0, 2.0]], model=model)
    assert "the buffer running_mean" in found.verdict["what"]
    assert "reset it" in found.verdict["advice"]
    model = nn.Linear(1, 1)
    nn.init.constant_(model.bias, INF)
    found = one_step(tmp_path / "b", model.forward, [[1.0]], model=model)
    assert "1 +Inf of 1 came in with the parameter bias" in found.verdict["what"]
    assert "checkpoint" in found.verdict["advice"]


def case(op: str, *inputs: list[float]) -> Case:
    """An operator at fault, made by hand."""
    node = Node(
        0, TRAINING_GRAPH, f"Default/{op}-op0", op, f"aten.{op}", "Default", "", Phase.FORWARD,
        Stack(0, ()),
    )  # fmt: skip
    known = [SeenValue(row_of(torch.tensor(x).numpy()), "float32", (len(x),)) for x in inputs]
    return Case(Birth(node, 0, 0, Bad(1, 1, 0, 0, 0)), known, None)


@pytest.mark.parametrize("op", ["log", "sqrt", "acos", "exp", "pow", "mul", "strange", "logit"])
def test_there_is_always_an_explanation(op: str) -> None:
    for inputs in ([], [[INF]], [[-INF, 1.0]], [[NAN]], [[]]):
        found = explain(case(op, *inputs))
        assert found.what and found.advice
