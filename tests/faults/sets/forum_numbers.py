"""Ten faults with NaN or Inf that people ask about in forums, written before they were tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from faults.sets.table import Faults

STEPS, BAD = 6, 3
FAULTS = Faults()
fault = FAULTS.fault


def net(inputs: int = 6, outputs: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 12), nn.GELU(), nn.Linear(12, outputs))


def data() -> Iterator[tuple[int, Tensor, Tensor]]:
    for step in range(STEPS):
        yield step, torch.randn(8, 6), torch.randint(0, 4, (8,))


def fit(model: nn.Module, loss_of: Callable[[Tensor, Tensor, int], Tensor]) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, x, y in data():
        loss = loss_of(x, y, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Attention(nn.Module):
    """Attention by hand, with a mask of what is padding."""

    def __init__(self, hidden: float) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(6, 6) for _ in range(3))
        self.hidden = hidden

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) / math.sqrt(6)
        scores = scores.masked_fill(padding[:, None], self.hidden)
        return F.softmax(scores, dim=-1) @ self.value(x)  # origin


@fault("_softmax", "softmax", at=Attention.forward)
def sentence_of_padding_alone(fixed: bool) -> None:
    """An empty sentence: -Inf in the whole row, and a softmax of it."""
    model = Attention(-1e9 if fixed else -math.inf)

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        words, padding = torch.randn(8, 5, 6), torch.zeros(8, 5, dtype=torch.bool)
        padding[:, 3:] = True
        if step == BAD:
            padding[2] = True
        return F.cross_entropy(model(words, padding).mean(1)[:, :4], y)

    fit(model, loss_of)


@fault("mul", "addmm", "mm", "linear", "matmul")
def sums_beyond_half_precision(fixed: bool) -> None:
    """float16 ends at 65504, bfloat16 does not."""
    body, head = nn.Linear(6, 512), nn.Linear(512, 1)
    model = nn.Sequential(body, head)

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16 if fixed else torch.float16):
            hidden = body(x).relu() * (3e4 if step == BAD else 1.0)
            logits = head(hidden.abs() * 8)  # origin
        return logits.float().tanh().sub(0.5).square().mean() + (logits.float() * 1e-6).mean()

    fit(model, loss_of)


@fault("log")
def binary_entropy_by_hand(fixed: bool) -> None:
    """`p` is exactly 1 in float32, and 0 · log 0 is NaN."""
    model = net(6, 1)

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        target = (y > 1).float()
        logit = model(x).squeeze(1) + (30.0 if step == BAD else 0.0)
        if fixed:
            return F.binary_cross_entropy_with_logits(logit, target)
        p = torch.sigmoid(logit)
        return -(target * p.log() + (1 - target) * (1 - p).log()).mean()  # origin

    fit(model, loss_of)


@fault("rsqrt", "mul", "acos", "div", "reciprocal")
def angle_of_no_rotation(fixed: bool) -> None:
    """The slope of acos at 1: a network that begins with 0, and two frames without motion."""
    model = net(6, 1)
    nn.init.zeros_(model[2].weight)
    nn.init.zeros_(model[2].bias)

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        turned = torch.linspace(0, 1, 8)
        cosine = torch.cos(model(x).squeeze(1) - turned)
        if fixed:
            cosine = cosine.clamp(-1 + 1e-6, 1 - 1e-6)
        return torch.acos(cosine).mean()  # origin

    fit(model, loss_of)


class Images(Dataset[Tensor]):
    """Images from minimum to maximum, of which one is black."""

    def __init__(self, guard: float) -> None:
        self.images = torch.rand(48, 6)
        self.images[29] = 0.0
        self.guard = guard

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        image = self.images[index]
        return (image - image.min()) / (image.max() - image.min() + self.guard)  # origin


@fault("div", at=Images.__getitem__)
def black_image(fixed: bool) -> None:
    """A dataset that stretches the contrast of each image; one has none."""
    model = net(6, 6)
    optimizer = torch.optim.Adam(model.parameters())
    for image in DataLoader(Images(1e-8 if fixed else 0.0), 8):
        optimizer.zero_grad()
        F.mse_loss(model(image), image).backward()
        optimizer.step()


@fault("exp")
def variance_of_raw_pixels(fixed: bool) -> None:
    """A VAE of pixels from 0 to 255: the exponential of its log-variance overflows."""
    encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
    with torch.no_grad():
        encoder.weight.copy_(torch.linspace(0.1, 0.4, 24).view(4, 6))
    model = nn.ModuleList([encoder, decoder])

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        pixels = torch.randint(100, 256, (8, 6)) / (255.0 if fixed else 1.0)
        mean, log_variance = encoder(pixels).chunk(2, dim=1)
        variance = log_variance.exp()  # origin
        made = decoder(mean + torch.randn_like(mean))
        divergence = -0.5 * (1 + log_variance - mean.square() - variance).sum(1).mean()
        return F.mse_loss(made, pixels) + divergence

    fit(model, loss_of)


@fault("pow")
def gamma_after_normalisation(fixed: bool) -> None:
    """A gamma curve of pixels that were centred before: a root of negative numbers."""
    model = net()

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        pixels = torch.rand(8, 6)
        if not fixed:
            pixels = (pixels - 0.5) / 0.25
        return F.cross_entropy(model(pixels ** (1 / 2.2)), y)  # origin

    fit(model, loss_of)


@fault("div_", "div")
def rows_of_length_one(fixed: bool) -> None:
    """Weights are brought to length 1 in place; a row that begins with zeros has none."""
    model = nn.Linear(6, 4)
    with torch.no_grad():
        model.weight[2] = 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _, x, y in data():
        with torch.no_grad():
            length = model.weight.norm(dim=1, keepdim=True)
            model.weight.div_(length.clamp(min=1e-6) if fixed else length)  # origin
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


@fault("pow", "mul")
def focal_loss_of_the_certain(fixed: bool) -> None:
    """The slope of (1 - p) ** 0.5 where p is exactly 1."""
    model = net()

    def loss_of(x: Tensor, y: Tensor, step: int) -> Tensor:
        logits = model(x)
        if step == BAD:
            logits = logits + 200.0 * F.one_hot(y, 4)
        log_p = F.log_softmax(logits, 1).gather(1, y[:, None]).squeeze(1)
        rest = 1 - log_p.exp() + (1e-6 if fixed else 0.0)
        return -(rest**0.5 * log_p).mean()  # origin

    fit(model, loss_of)


class Moments(torch.optim.Optimizer):
    """Adam as somebody remembers it."""

    def __init__(self, params: Iterator[nn.Parameter], eps: float) -> None:
        super().__init__(params, {"lr": 1e-3, "eps": eps})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                m = state.setdefault("m", torch.zeros_like(p)).mul_(0.9).add_(p.grad, alpha=0.1)
                v = state.setdefault("v", torch.zeros_like(p)).mul_(0.99)
                v.addcmul_(p.grad, p.grad, value=0.01)
                update = m / (v.sqrt() + group["eps"])  # origin
                p.sub_(update, alpha=group["lr"])


@fault("div", at=Moments.step)
def optimizer_without_epsilon(fixed: bool) -> None:
    """Rows of an embedding that no batch has had yet: 0 / 0."""
    words, head = nn.Embedding(30, 6), nn.Linear(6, 4)
    model = nn.Sequential(words, head)
    optimizer = Moments(model.parameters(), 1e-8 if fixed else 0.0)
    for _, _, y in data():
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randint(0, 20, (8,))), y).backward()
        optimizer.step()
