"""Advice on what to look at when a condition is hit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opscope.judge.catalogue import BY_NAME

_ADVICE = {
    "TO": "Follow the relations to the first value that is not finite; its inputs say why.",
    "OO": "Its inputs are sound: look at their extremes, and keep them inside what it is made for.",
    "TZ": "Look one operator back: a mask, a dead activation or data of zeros.",
    "TR": "Compare with the step before: which of its inputs left its range first?",
    "TL": "Look one operator back for the input that grew; normalise or clip it.",
    "TS": "Look one operator back for the input that shrank; check scales and initial weights.",
    "WI": "Check how this weight is initialised, and whether a checkpoint was loaded.",
    "WO": "The update before made it so: look at the gradient and at the optimizer's state.",
    "WL": "Lower the learning rate, clip gradients, or use weight decay.",
    "WS": "Raise the learning rate or lower weight decay; see whether its gradient is tiny.",
    "WNC": "See whether it has a gradient, is in the optimizer, and the learning rate is not 0.",
    "WCL": "Lower the learning rate, warm it up, or clip gradients.",
    "WCS": "Raise the learning rate, or see whether the gradient vanishes on its way here.",
    "AR": "Look at the input of the activation: normalise it, or initialise the layer smaller.",
    "GE": "Follow the relations back to where the gradient stops being finite first.",
    "GL": "Clip gradients, lower the learning rate, or look for an unusual batch.",
    "GV": "Look for saturated activations and missing normalisation between here and the loss.",
    "AS": "Normalise the input, initialise smaller, or use an activation that does not saturate.",
    "AD": "Lower the learning rate or the bias, or use LeakyReLU or GELU.",
}
_OF_TARGET = {
    "weight": "Look at its gradient, the learning rate and the optimizer's state.",
    "gradient": "Follow the relations towards the loss, and see where it changes size.",
    "activation": "Look at the input of the activation and at the layer before it.",
    "training": "Look at the step before, and at what changed since.",
}
_OTHERWISE = "Look at what it was computed from: is one of its inputs unusual?"


def advice_for(hit: Mapping[str, Any]) -> str:
    """Return the advice of the verdict on this very hit, or else that of its condition."""
    verdict = hit.get("verdict")
    if isinstance(verdict, Mapping) and verdict.get("node") == hit.get("node"):
        found = verdict.get("advice")
        if isinstance(found, str) and found:
            return found
    name = str(hit.get("condition", ""))
    condition = BY_NAME.get(name)
    target = condition.target if condition else ""
    return _ADVICE.get(name) or _OF_TARGET.get(target, _OTHERWISE)


def summary_of(name: str) -> str:
    """Say what a condition means; nothing if it is not known."""
    condition = BY_NAME.get(name)
    return condition.summary if condition else ""
