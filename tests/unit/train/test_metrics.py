"""Metrics against the guide's example, worked examples and definitions written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from opscope import train
from opscope.train import (
    AUC,
    F1,
    MAE,
    MSE,
    ROC,
    Accuracy,
    BleuScore,
    ConfusionMatrix,
    ConfusionMatrixMetric,
    CosineSimilarity,
    Dice,
    Fbeta,
    HausdorffDistance,
    Loss,
    MeanSurfaceDistance,
    Metric,
    OcclusionSensitivity,
    Perplexity,
    Precision,
    Recall,
    RootMeanSquareDistance,
    Top1CategoricalAccuracy,
    TopKCategoricalAccuracy,
    auc,
    get_metric_fn,
    names,
)
from opscope.train.metrics.names import metrics_of

SCORES = np.array([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]])
LABELS = np.array([1, 0, 1])


def result(metric: Metric, *batches: tuple[Any, ...]) -> Any:
    metric.clear()
    for batch in batches:
        metric.update(*batch)
    return metric.eval()


def test_precision_recall_and_f_have_a_number_per_class() -> None:
    batch = (SCORES, LABELS)
    assert np.array_equal(result(Precision(), batch), [0.5, 1.0])
    assert np.array_equal(result(Recall(), batch), [1.0, 0.5])
    assert np.allclose(result(F1(), batch), [2 / 3, 2 / 3])
    assert np.allclose(result(Fbeta(2.0), batch), [5 / 6, 5 / 9])
    metric = Precision()
    metric.update(*batch)
    assert metric.eval(average=True) == 0.75


@pytest.mark.parametrize("kind", [Accuracy, Precision, Recall, F1])
def test_batches_add_up(kind: type[Metric]) -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(50, 4), torch.randint(0, 4, (50,))
    parts = [(scores[at : at + 7], labels[at : at + 7]) for at in range(0, 50, 7)]
    whole = result(kind(), (scores, labels))
    assert np.allclose(result(kind(), *parts), whole)
    assert np.allclose(result(kind(), *parts), whole)  # clear forgets
    one_hot = torch.nn.functional.one_hot(labels, 4)
    assert np.allclose(result(kind(), (scores, one_hot)), whole)
    found = scores.argmax(1)
    if kind is Accuracy:
        assert whole == (found == labels).double().mean()
    elif kind is Precision:
        expected = [(labels[found == c] == c).double().mean() for c in range(4)]
        assert np.allclose(whole, expected)


def test_other_ways_to_write_outputs() -> None:
    assert result(Accuracy(), ([0.9, 0.2, 0.6], [1, 0, 0])) == pytest.approx(2 / 3)
    assert result(Accuracy(), (torch.tensor([[3.0], [-2.0]]), torch.tensor([[1], [0]]))) == 1
    assert result(Accuracy(), (torch.tensor([2, 0, 5]), torch.tensor([2, 0, 4]))) == 2 / 3
    pictures = torch.randn(2, 3, 4, 4)
    assert result(Accuracy(), (pictures, pictures.argmax(1))) == 1
    assert result(Accuracy(), (pictures.bfloat16(), pictures.bfloat16().argmax(1))) == 1


def test_classes_that_turn_up_late() -> None:
    metric = Precision()
    metric.update([0, 1], [0, 1])
    metric.update([3, 3], [3, 0])
    assert np.array_equal(metric.eval(), [1, 1, 0, 0.5])


def test_several_labels_per_sample() -> None:
    found, right = [[1, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 1, 0]]
    assert result(Accuracy("multilabel"), (found, right)) == 0.5
    assert np.array_equal(result(Precision("multilabel"), (found, right)), [0.5, 1])
    assert np.array_equal(result(Recall("multilabel"), (found, right)), [1, 1])
    with pytest.raises(ValueError, match="eval_type = 'x'"):
        Accuracy("x")


def test_the_best_k() -> None:
    scores = [[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.2, 0.3, 0.5]]
    assert result(TopKCategoricalAccuracy(2), (scores, [2, 1, 0])) == pytest.approx(2 / 3)
    assert result(Top1CategoricalAccuracy(), (scores, [1, 0, 0])) == pytest.approx(2 / 3)
    assert result(TopKCategoricalAccuracy(), (scores, [2, 1, 0])) == 1
    with pytest.raises(ValueError, match="k = 0"):
        TopKCategoricalAccuracy(0)


def test_errors_of_numbers() -> None:
    batch = ([0.1, 0.2, 0.6, 0.9], [0.1, 0.25, 0.7, 0.9])
    assert result(MAE(), batch) == pytest.approx(0.0375)
    assert result(MSE(), batch) == pytest.approx(0.003125)
    assert result(MSE(), batch, ([1.0], [3.0])) == pytest.approx((0.0125 + 4) / 5)
    assert result(Loss(), (torch.tensor(1.0),), (torch.tensor(2.0),)) == 1.5
    with pytest.raises(ValueError, match=r"one shape, not \[2\] and \[2, 1\]"):
        result(MAE(), ([1.0, 2.0], [[1.0], [2.0]]))


def test_perplexity() -> None:
    found = result(Perplexity(), (SCORES, LABELS))
    assert found == pytest.approx(math.exp(-(math.log(0.5) + math.log(0.3) + math.log(0.6)) / 3))
    assert found == pytest.approx(2.231443166940565)
    logits = torch.randn(2, 5, 7)
    tokens = torch.randint(0, 7, (2, 5))
    expected = torch.nn.functional.cross_entropy(logits.reshape(-1, 7), tokens.reshape(-1)).exp()
    assert result(Perplexity(from_logits=True), (logits, tokens)) == pytest.approx(float(expected))
    ignored = result(Perplexity(ignore_label=1), (SCORES, LABELS))
    assert ignored == pytest.approx(1 / 0.3)
    with pytest.raises(ValueError, match="takes probabilities"):
        result(Perplexity(), (logits, tokens))


def test_overlap_and_similarity() -> None:
    right = [[0, 1], [1, 0], [0, 1]]
    assert result(Dice(), (SCORES, right)) == pytest.approx(2.8 / 4.56, rel=1e-5)
    assert result(Dice(), (right, right)) == pytest.approx(1, rel=1e-5)
    rows = np.array([[1.0, 3, 4, 7], [2, 4, 2, 5], [3, 1, 5, 8]])
    found = result(CosineSimilarity(), (rows,))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    expected = unit @ unit.T
    np.fill_diagonal(expected, 0)
    assert np.allclose(found, expected)


def test_confusion() -> None:
    found = result(ConfusionMatrix(), ([1, 0, 1, 0], [1, 0, 0, 1]))
    assert np.array_equal(found, [[1, 1], [1, 1]])
    grown = result(ConfusionMatrix(), ([0], [0]), ([3], [1]))
    assert grown.shape == (4, 4)
    assert grown[1, 3] == 1
    shares = result(ConfusionMatrix(normalize="target"), ([0, 1, 1], [0, 0, 1]))
    assert np.array_equal(shares, [[0.5, 0.5], [0, 1]])
    with pytest.raises(ValueError, match="normalize"):
        ConfusionMatrix(normalize="x")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sensitivity", 2 / 3),
        ("specificity", 1 / 2),
        ("precision", 2 / 3),
        ("miss_rate", 1 / 3),
        ("fall out", 1 / 2),
        ("threat score", 1 / 2),
        ("accuracy", 3 / 5),
        ("balanced accuracy", 7 / 12),
        ("f1", 2 / 3),
        ("mcc", (2 * 1 - 1 * 1) / math.sqrt(3 * 3 * 2 * 2)),
    ],
)
def test_rates(name: str, expected: float) -> None:
    found = torch.tensor([1, 1, 1, 0, 0]).reshape(5, 1)
    right = torch.tensor([1, 1, 0, 1, 0]).reshape(5, 1)
    metric = ConfusionMatrixMetric(skip_channel=False, metric_name=name)
    assert result(metric, (found, right)) == pytest.approx(expected)


def test_rates_of_each_class() -> None:
    found, right = torch.eye(3).repeat(2, 1), torch.eye(3)[[0, 1, 1, 0, 1, 2]]
    metric = ConfusionMatrixMetric(metric_name="recall", decrease="sum_batch")
    assert np.allclose(result(metric, (found, right)), [2 / 3, 1])


def test_curves() -> None:
    false, true, thresholds = result(ROC(pos_label=2), ([3, 1, 4, 2], [0, 1, 2, 3]))
    assert np.allclose(false, [0, 0, 1 / 3, 2 / 3, 1])
    assert np.allclose(true, [0, 1, 1, 1, 1])
    assert np.allclose(thresholds, [5, 4, 3, 2, 1])
    scores = [[0.28, 0.55, 0.15, 0.05], [0.1, 0.2, 0.05, 0.05], [0.2, 0.05, 0.15, 0.05]]
    false, true, _ = result(ROC(4), (scores, [0, 1, 3]))
    assert len(false) == len(true) == 4
    assert result(AUC(), ([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])) == pytest.approx(0.75)
    assert auc([0, 1, 2], [0, 2, 2]) == 3
    with pytest.raises(ValueError, match="reorder=True"):
        auc([0, 2, 1], [0, 1, 2])
    assert auc([0, 2, 1], [0, 1, 2], reorder=True) == 2.5


def masks() -> tuple[torch.Tensor, torch.Tensor]:
    found, right = torch.zeros(9, 9), torch.zeros(9, 9)
    found[2:5, 2:5] = 1
    right[2:5, 4:7] = 1
    return found, right


def test_surfaces() -> None:
    found, right = masks()
    assert result(HausdorffDistance(), (found, right, 1)) == 2
    assert result(HausdorffDistance(directed=True, percentile=0), (found, right, 1)) == 0
    # Of the eight points of a ring, three are 2 away, two are 1 away (through its middle), three 0.
    assert result(MeanSurfaceDistance(), (found, right, 1)) == pytest.approx((3 * 2 + 2 * 1) / 8)
    expected = math.sqrt((3 * 4 + 2 * 1) / 8)
    assert result(RootMeanSquareDistance(True), (found, right, 1)) == pytest.approx(expected)
    assert result(HausdorffDistance(), (found, found)) == 0
    assert result(HausdorffDistance(), (found, torch.zeros(9, 9))) == math.inf
    assert result(HausdorffDistance("taxicab"), (found, right.roll(1, 0), 1)) == 3


def test_bleu() -> None:
    sentence = ["i", "have", "a", "pen", "on", "my", "desk"]
    references = [["there", *sentence[2:]], [*sentence[:3], "red", *sentence[3:]]]
    assert result(BleuScore(), ([sentence], [[sentence]])) == pytest.approx(1)
    found = result(BleuScore(n_gram=1), ([["the", "the", "pen"]], [[["the", "pen"]]]))
    assert found == pytest.approx(2 / 3)
    assert 0 < result(BleuScore(), ([sentence], [references])) < 1


def test_occlusion() -> None:
    weights = torch.zeros(1, 1, 4, 4)
    weights[0, 0, 1, 2] = 3.0

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            score = (x * weights).sum((1, 2, 3))
            return torch.stack([score, -score], 1)

    found = result(OcclusionSensitivity(margin=0), (Model(), torch.ones(1, 1, 4, 4), [0]))
    assert found.shape == (1, 4, 4)
    assert np.array_equal(found[0], 3 * (weights[0, 0] > 0).numpy())


def test_every_name_makes_a_metric_that_says_it_has_seen_nothing() -> None:
    assert len(names()) == 23
    for name in names():
        metric = get_metric_fn(name)
        metric.clear()
        with pytest.raises(RuntimeError, match="has no samples: call update before eval"):
            metric.eval()


def test_an_unknown_name() -> None:
    with pytest.raises(KeyError, match=r"no metric is called .*did you mean"):
        get_metric_fn("acuracy")


def test_what_metrics_may_be() -> None:
    assert list(metrics_of(["loss", "accuracy"])) == ["loss", "accuracy"]
    assert list(metrics_of({"loss", "accuracy"})) == ["accuracy", "loss"]
    assert metrics_of(None) == {}
    with pytest.raises(TypeError, match="not the class"):
        metrics_of({"accuracy": Accuracy})
    with pytest.raises(TypeError, match="a dict, a list or a set"):
        metrics_of("accuracy")


def test_metrics_of_torchmetrics_are_taken_too() -> None:
    import torchmetrics

    mine = metrics_of({"mine": torchmetrics.MeanMetric()})
    assert list(mine) == ["mine"]
    theirs = metrics_of({"f": torchmetrics.F1Score("multiclass", num_classes=2)})["f"]
    assert result(theirs, (SCORES, LABELS)) == pytest.approx(2 / 3)


def test_all_names_are_there() -> None:
    assert all(hasattr(train, name) for name in train.__all__)
    assert set(train.__all__) == set(train._MODULES)
    with pytest.raises(AttributeError):
        _ = train.nothing_like_this
