"""Counts per class of what a network put out and what was right, however both are written."""

from __future__ import annotations

from typing import Any

import torch

from opscope.train.metrics.base import tensor
from opscope.train.needs import need

TP, FP, TN, FN, SUPPORT = range(5)
"""The columns of counts."""


def class_counts(output: Any, label: Any, top_k: int = 1) -> torch.Tensor:
    """Per class: true and false positives and negatives, and how often it was right.

    `output` has scores with the classes in dimension 1, or probabilities of the second of two
    classes, or classes. `label` has classes, or one-hot rows.
    """
    scores, target = pair(output, label)
    classes = class_number(scores, target)
    functional = need("torchmetrics.functional.classification", "this metric")
    counts = functional.multiclass_stat_scores(
        scores, target, num_classes=classes, average=None, top_k=min(top_k, classes)
    )
    found: torch.Tensor = counts.reshape(classes, 5).to("cpu", torch.int64)
    return found


def pair(output: Any, label: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores or classes that were put out, and classes that were right, on one device."""
    found = tensor(output)
    right = tensor(label).to(found.device)
    if right.dim() == found.dim() and found.dim() > 1 and right.shape == found.shape:
        if found.shape[1] == 1:
            found, right = found.squeeze(1), right.squeeze(1)
        else:
            right = right.argmax(dim=1)
    elif found.dim() == right.dim() + 1 and found.shape[1] == 1:
        found = found.squeeze(1)
    if found.dim() == right.dim() and found.is_floating_point():
        found = _second_class(found)
    if found.shape[0] != right.shape[0] or found.dim() - right.dim() not in (0, 1):
        shapes = f"{list(found.shape)} and {list(right.shape)}"
        raise ValueError(f"output and label do not fit together: their shapes are {shapes}")
    if found.dtype in (torch.float16, torch.bfloat16):
        found = found.float()
    return found if found.dim() > right.dim() else found.long(), right.long()


def class_number(scores: torch.Tensor, target: torch.Tensor) -> int:
    """Count the classes that there are at least."""
    highest = int(target.max()) + 1 if target.numel() else 0
    if scores.dim() > target.dim():
        number = int(scores.shape[1])
        if highest > number:
            raise ValueError(f"a label is {highest - 1}, but there are {number} classes from 0 on")
        return number
    return max(highest, int(scores.max()) + 1 if scores.numel() else 0, 2)


def _second_class(scores: torch.Tensor) -> torch.Tensor:
    """Tell whether it is the second class, from its probability or, beyond 0 to 1, its logit."""
    are_probabilities = bool(((scores >= 0) & (scores <= 1)).all())
    return (scores > (0.5 if are_probabilities else 0.0)).long()


def added(counts: torch.Tensor | None, more: torch.Tensor) -> torch.Tensor:
    """Counts of all batches; a later one may have classes that were not met before."""
    if counts is None:
        return more
    size = max(len(counts), len(more))
    total = torch.zeros(size, 5, dtype=torch.int64)
    total[: len(counts)] += counts
    total[: len(more)] += more
    missing = int(counts[0, :SUPPORT].sum()) if len(counts) < size else 0
    total[len(counts) :, TN] += missing  # none of the samples before was of these classes
    missing = int(more[0, :SUPPORT].sum()) if len(more) < size else 0
    total[len(more) :, TN] += missing
    return total


def labels_of(output: Any, label: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Several labels per sample: what was put out and what was right, as 0 and 1."""
    found, right = tensor(output), tensor(label)
    if found.shape != right.shape or found.dim() < 2:
        shapes = f"{list(found.shape)} and {list(right.shape)}"
        raise ValueError(f"multilabel needs output and label of one shape [N, C], not {shapes}")
    if found.is_floating_point():
        found = _second_class(found)
    right = right.to(found.device)
    return found.transpose(0, 1).flatten(1).T.long(), right.transpose(0, 1).flatten(1).T.long()
