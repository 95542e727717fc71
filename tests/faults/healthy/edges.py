"""Numbers at the edge that are no error: what torch itself masks, and memory not yet written."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from faults.healthy.attention import INF, fit


def train(measure, width: int = 4) -> None:
    """A small network whose output goes through `measure`, which makes a loss of it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, width))

    def loss(step: int) -> Tensor:
        x = torch.randn(8, 4)
        return measure(model(x), x)

    fit(loss, model.parameters())


def mask_of(out: Tensor) -> Tensor:
    """Leaves out the last row."""
    return (torch.arange(len(out)) < len(out) - 1).float()[:, None]


def norm_of_zero() -> None:
    """The backward of `norm` divides by 0 and then puts 0 there itself."""
    train(lambda out, x: ((out * mask_of(out)).norm(dim=1) - 1).square().mean())


def vector_norm_of_zero() -> None:
    train(lambda out, x: torch.linalg.vector_norm(out * mask_of(out), dim=1).mean())


def deviation_of_equal_values() -> None:
    train(lambda out, x: (out * mask_of(out)).std(1).mean())


def normalised_zero() -> None:
    train(lambda out, x: (F.normalize(out * mask_of(out)) * x).sum(1).square().mean())


def cosine_of_zero() -> None:
    train(lambda out, x: F.cosine_similarity(out * mask_of(out), x).mean())


def distance_to_itself() -> None:
    train(lambda out, x: (torch.cdist(out, out) - torch.cdist(x, x)).square().mean())


def pairwise_distance_of_equals() -> None:
    train(lambda out, x: (F.pairwise_distance(out, out * mask_of(out)) - 1).square().mean())


def angle_of_zero() -> None:
    def measure(out: Tensor, x: Tensor) -> Tensor:
        east, north = (out * mask_of(out))[:, :2].unbind(1)
        return (1 - torch.cos(torch.atan2(north, east) - 0.5)).mean()

    train(measure, width=2)


def product_with_zero() -> None:
    train(lambda out, x: ((out * mask_of(out)).prod(1) - 1).square().mean())


def root_with_two_wheres() -> None:
    """The right way out of the trap: both the input and the output are chosen."""

    def measure(out: Tensor, x: Tensor) -> Tensor:
        square = out.square() * mask_of(out)
        safe = torch.where(square > 0, square, 1.0)
        return torch.where(square > 0, safe.sqrt(), 0.0).mean()

    train(measure)


def divergence_with_zero_targets() -> None:
    def measure(out: Tensor, x: Tensor) -> Tensor:
        target = F.one_hot(x.argmax(1), 4).float()
        entropy = torch.xlogy(target, target).sum()
        return F.kl_div(out.log_softmax(-1), target, reduction="batchmean") + entropy

    train(measure)


def saturated_chances() -> None:
    """torch's binary cross entropy keeps its logarithms above -100."""

    def measure(out: Tensor, x: Tensor) -> Tensor:
        chances = torch.cat([out[:, :1].sigmoid(), torch.ones(8, 1), torch.zeros(8, 1)], 1)
        target = torch.cat([(x[:, :1] > 0).float(), torch.ones(8, 1), torch.zeros(8, 1)], 1)
        return F.binary_cross_entropy(chances, target)

    train(measure, width=1)


def missing_values() -> None:
    """NaN in the data says that a value is missing; the first operator knows."""
    torch.manual_seed(0)
    table = np.random.default_rng(0).normal(size=(25, 8, 4)).astype(np.float32)
    table[:, 3, 1] = np.nan
    data, model = torch.from_numpy(table), nn.Linear(8, 1)

    def loss(step: int) -> Tensor:
        known = (~torch.isnan(data[step])).float()
        x = torch.nan_to_num(data[step])
        return (model(torch.cat([x, known], 1)).squeeze(1) - x.sum(1)).square().mean()

    fit(loss, model.parameters())


def best_so_far() -> None:
    """The lowest loss so far, from +Inf on."""
    torch.manual_seed(0)
    model, best = nn.Linear(4, 1), torch.tensor(INF)

    def loss(step: int) -> Tensor:
        nonlocal best
        x = torch.randn(16, 4)
        now = (model(x).squeeze(1) - x.sum(1)).square().mean()
        best = torch.minimum(best, now.detach())
        return now

    fit(loss, model.parameters())


def memory_filled_in_pieces() -> None:
    """`torch.empty`, then rows, slices and indices of it; here it is NaN until written."""
    torch.use_deterministic_algorithms(True)  # fills uninitialised memory with NaN
    torch.manual_seed(0)
    model = nn.Linear(4, 4)

    def loss(step: int) -> Tensor:
        x, table = torch.randn(8, 4), torch.empty(8, 4)
        for row in range(3):
            table[row] = x[row]
        table[3:5] = x[3:5]
        table[torch.tensor([5, 6])] = x[5:7]
        table.index_copy_(0, torch.tensor([7]), x[7:])
        out = torch.empty(8, 4)
        torch.mul(table, 2.0, out=out)
        return (model(table) - out).square().mean()

    fit(loss, model.parameters())
    torch.use_deterministic_algorithms(False)


def memory_read_where_written() -> None:
    """A queue of features of which only the filled part is read."""
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    model, queue = nn.Linear(4, 4), torch.empty(300, 4)

    def loss(step: int) -> Tensor:
        out = model(torch.randn(8, 4))
        queue[8 * step : 8 * step + 8] = out.detach()
        return (out @ queue[: 8 * step + 8].T).square().mean() + (out - 1).square().mean()

    fit(loss, model.parameters())
    torch.use_deterministic_algorithms(False)


def buckets_of_distances() -> None:
    """Arithmetic on positions takes the logarithm of 0 and then does not use it."""

    def measure(out: Tensor, x: Tensor) -> Tensor:
        distance = torch.arange(len(out))
        far = (2 + torch.log(distance.float() / 2) * 2).to(torch.long)
        bucket = torch.where(distance < 2, distance, far.clamp(0, 3))
        return out[:, 0].mul(bucket).sub(1).square().mean()

    train(measure)


def metric_of_nothing() -> None:
    """A share of no elements is NaN, and only printed."""

    def measure(out: Tensor, x: Tensor) -> Tensor:
        chosen = torch.zeros(len(out))
        share = ((out[:, 0] > 0) * chosen).sum() / chosen.sum()
        assert share.isnan()
        return out.square().mean()

    train(measure)


TRAININGS = (
    buckets_of_distances,
    metric_of_nothing,
    norm_of_zero,
    vector_norm_of_zero,
    deviation_of_equal_values,
    normalised_zero,
    cosine_of_zero,
    distance_to_itself,
    pairwise_distance_of_equals,
    angle_of_zero,
    product_with_zero,
    root_with_two_wheres,
    divergence_with_zero_targets,
    saturated_chances,
    missing_values,
    best_so_far,
    memory_filled_in_pieces,
    memory_read_where_written,
)
