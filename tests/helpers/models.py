"""Small trainings of many kinds; each is a function that seeds, trains and returns the outcome."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

STEPS = 5


@dataclass
class Trained:
    """What a training led to: everything that must not depend on who watched."""

    losses: list[float]
    state: dict[str, Tensor]
    rng: Tensor
    steps: int = STEPS


def outcome(losses: list[float], *modules: nn.Module, steps: int = STEPS) -> Trained:
    """The outcome of a training of these modules."""
    state = {
        f"{number}.{name}": tensor.detach().clone()
        for number, module in enumerate(modules)
        for name, tensor in module.state_dict().items()
    }
    return Trained(losses, state, torch.get_rng_state(), steps)


def assert_identical(one: Trained, other: Trained) -> None:
    """Bit for bit the same losses, weights, buffers and random numbers to come."""
    assert one.losses == other.losses
    assert one.state.keys() == other.state.keys()
    for name, tensor in one.state.items():
        assert torch.equal(tensor, other.state[name]), name
    assert torch.equal(one.rng, other.rng)


def fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Callable[[], tuple[Tensor, Tensor]],
    loss_of: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    clip: float | None = None,
) -> Trained:
    """The training loop everybody writes."""
    losses = []
    for _ in range(STEPS):
        inputs, target = batch()
        optimizer.zero_grad()
        loss = loss_of(model(inputs), target)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    return outcome(losses, model)


def images() -> tuple[Tensor, Tensor]:
    """Random pictures and their classes."""
    return torch.randn(4, 1, 8, 8), torch.randint(0, 3, (4,))


def vectors() -> tuple[Tensor, Tensor]:
    """Random points and their classes."""
    return torch.randn(6, 8), torch.randint(0, 3, (6,))


def cnn() -> Trained:
    """Convolution, pooling and momentum."""
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 2),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(24, 3),
    )
    return fit(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), images)


class Block(nn.Module):
    """One layer of a transformer with causal attention."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.drop = nn.Dropout(0.1)

    def attend(self, x: Tensor) -> Tensor:
        """Causal self-attention."""
        batch, length, width = x.shape
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.attend(self.norm1(x)))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """A language model whose output layer shares the embedding's weight."""

    def __init__(self, vocabulary: int = 13, width: int = 8, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(6, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(x).flatten(0, 1)


def text() -> tuple[Tensor, Tensor]:
    """Random tokens and the ones that follow them."""
    tokens = torch.randint(0, 13, (2, 7))
    return tokens[:, :-1], tokens[:, 1:].flatten()


def gpt() -> Trained:
    """A transformer with tied weights, clipping and AdamW."""
    torch.manual_seed(2)
    model = Gpt()
    return fit(model, torch.optim.AdamW(model.parameters(), 1e-2), text, clip=0.5)


def gpt_fused() -> Trained:
    """The same with the fused optimizer."""
    torch.manual_seed(2)
    model = Gpt()
    return fit(model, torch.optim.AdamW(model.parameters(), 1e-2, fused=True), text, clip=0.5)


class Reader(nn.Module):
    """Embedding, LSTM, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(13, 6)
        self.lstm = nn.LSTM(6, 8, num_layers=2, batch_first=True, dropout=0.2)
        self.out = nn.Linear(8, 13)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embed(tokens))
        return self.out(hidden).flatten(0, 1)


def lstm() -> Trained:
    """A recurrent network and Adam with foreach operators."""
    torch.manual_seed(3)
    model = Reader()
    return fit(model, torch.optim.Adam(model.parameters(), 1e-2, foreach=True), text)


def gan() -> Trained:
    """Two networks, two optimizers, and a gradient penalty (double backward)."""
    torch.manual_seed(4)
    maker = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 8), nn.Tanh())
    critic = nn.Sequential(nn.Linear(8, 8), nn.Softplus(), nn.Linear(8, 1))
    make_step = torch.optim.Adam(maker.parameters(), 1e-2, betas=(0.5, 0.9))
    critic_step = torch.optim.RMSprop(critic.parameters(), 1e-2)
    losses = []
    for _ in range(STEPS):
        real, fake = torch.randn(6, 8), maker(torch.randn(6, 4))
        mixed = torch.lerp(real, fake.detach(), torch.rand(6, 1)).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = (slope.norm(dim=1) - 1).square().mean()
        loss = critic(fake.detach()).mean() - critic(real).mean() + penalty
        critic_step.zero_grad()
        loss.backward()
        critic_step.step()
        losses.append(loss.item())
        make_step.zero_grad()
        made = -critic(fake).mean()
        made.backward()
        make_step.step()
        losses.append(made.item())
    return outcome(losses, maker, critic)


class Vae(nn.Module):
    """A variational autoencoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(8, 6), nn.Linear(3, 8)

    def forward(self, x: Tensor) -> Tensor:
        mean, log_variance = self.encode(x).chunk(2, -1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        wrong = F.binary_cross_entropy_with_logits(self.decode(code), x.sigmoid())
        apart = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).mean()
        return wrong + apart


def vae() -> Trained:
    """Random numbers inside the forward."""
    torch.manual_seed(5)
    model = Vae()
    return fit(model, torch.optim.Adam(model.parameters(), 1e-2), vectors, lambda loss, _: loss)


class Gnn(nn.Module):
    """Messages along edges, added up per node."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.update, self.out = nn.Linear(8, 8), nn.GRUCell(8, 8), nn.Linear(8, 3)
        self.register_buffer("degree", torch.zeros(6))

    def forward(self, nodes: Tensor) -> Tensor:
        source, target = torch.randint(0, 6, (2, 15))
        for _ in range(2):
            sent = self.message(nodes)[source].relu()
            summed = torch.zeros_like(nodes).index_add_(0, target, sent)
            largest = torch.zeros_like(nodes).scatter_reduce(
                0, target[:, None].expand(-1, 8), sent, "amax"
            )
            nodes = self.update(summed + largest, nodes)
        self.degree.scatter_add_(0, target, torch.ones(15))
        return self.out(nodes)


def gnn() -> Trained:
    """Scatter, gather and a buffer written by the user."""
    torch.manual_seed(6)
    model = Gnn()
    return fit(model, torch.optim.Adagrad(model.parameters(), 0.1), vectors)


def batchnorm_dropout() -> Trained:
    """Running statistics, random masks, and evaluation between the steps."""
    torch.manual_seed(7)
    model = nn.Sequential(
        nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Dropout(0.4), nn.Linear(8, 3)
    )
    optimizer = torch.optim.NAdam(model.parameters(), 1e-2)
    losses = []
    for _ in range(STEPS):
        inputs, target = vectors()
        optimizer.zero_grad()
        loss = F.cross_entropy(model.train()(inputs), target)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            held_out = F.cross_entropy(model.eval()(inputs), target)
        losses += [loss.item(), held_out.item()]
    return outcome(losses, model)


def mixed_precision() -> Trained:
    """bfloat16 autocast."""
    torch.manual_seed(8)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for _ in range(STEPS):
        tokens, target = text()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(tokens), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return outcome(losses, model)


class Checkpointed(nn.Module):
    """Blocks whose forward runs again in backward, in both ways torch has."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(8), Block(8)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.first, x, use_reentrant=True)
        x = checkpoint(self.second, x, use_reentrant=False)
        return self.out(x).mean(1)


def checkpointed() -> Trained:
    """Recomputation, with the dropout masks drawn again."""
    torch.manual_seed(9)
    model = Checkpointed()

    def batch() -> tuple[Tensor, Tensor]:
        return torch.randn(4, 5, 8, requires_grad=True), torch.randint(0, 3, (4,))

    return fit(model, torch.optim.SGD(model.parameters(), 0.1), batch)


class Masked(nn.Module):
    """Attention that must not look at padding."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        padding = torch.arange(5).expand(4, 5) >= torch.tensor([[5], [3], [1], [4]])
        mixed, _ = self.attention(x, x, x, key_padding_mask=padding)
        scores = (mixed @ x.mT).masked_fill(padding[:, None], float("-inf")).softmax(-1)
        return self.out(scores @ mixed).masked_fill(padding[..., None], 0.0).sum(1)


def masked_attention() -> Trained:
    """Infinite scores that are meant to be there."""
    torch.manual_seed(10)
    model = Masked()

    def batch() -> tuple[Tensor, Tensor]:
        return torch.randn(4, 5, 8), torch.randint(0, 3, (4,))

    return fit(model, torch.optim.Adamax(model.parameters(), 1e-2), batch)


def scaled_fp16() -> Trained:
    """float16 with a gradient scaler whose first steps overflow and are skipped."""
    torch.manual_seed(11)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**19)
    losses = []
    for _ in range(STEPS):
        inputs, target = vectors()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(inputs), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses += [loss.item(), scaler.get_scale()]
    return outcome(losses, model)


def accumulated() -> Trained:
    """Three backward passes per step, and a schedule for the learning rate."""
    torch.manual_seed(12)
    model = nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, amsgrad=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    losses = []
    for _, last in itertools.product(range(STEPS), (False, False, True)):
        inputs, target = vectors()
        loss = F.cross_entropy(model(inputs), target) / 3
        loss.backward()
        losses.append(loss.item())
        if last:
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=False)
    return outcome(losses, model)


def lbfgs() -> Trained:
    """An optimizer that calls the model itself."""
    torch.manual_seed(13)
    model = nn.Linear(8, 3)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")
    inputs, target = vectors()
    losses: list[float] = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), target)
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    return outcome(losses, model)


class Squared(torch.autograd.Function):
    """A differentiable function of the user's own."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


class Hooked(nn.Module):
    """Hooks of every kind that change what flows through them, and a custom function."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 3)
        self.first.register_forward_hook(lambda module, args, out: out * 0.5)
        self.second.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 2,))
        self.second.weight.register_hook(lambda gradient: gradient + 0.01)

    def forward(self, x: Tensor) -> Tensor:
        hidden = Squared.apply(self.first(x))
        hidden.register_hook(lambda gradient: gradient.clamp_(-0.1, 0.1))
        return self.second(hidden)


def hooked() -> Trained:
    """Hooks and a custom `autograd.Function`."""
    torch.manual_seed(14)
    model = Hooked()
    return fit(
        model, torch.optim.SGD(model.parameters(), 0.1, nesterov=True, momentum=0.5), vectors
    )


MODELS: tuple[Callable[[], Trained], ...] = (
    cnn,
    gpt,
    gpt_fused,
    lstm,
    gan,
    vae,
    gnn,
    batchnorm_dropout,
    mixed_precision,
    checkpointed,
    masked_attention,
    scaled_fp16,
    accumulated,
    lbfgs,
    hooked,
)


def shards(rank: int, world: int) -> Iterator[tuple[Tensor, Tensor]]:
    """This rank's part of every batch; all ranks together see the same data as one would."""
    generator = torch.Generator().manual_seed(15)
    for _ in range(STEPS):
        inputs = torch.randn(4 * world, 8, generator=generator)
        target = torch.randint(0, 3, (4 * world,), generator=generator)
        yield inputs[rank::world], target[rank::world]


def ddp(rank: int, world: int) -> Trained:
    """Data parallel training of one rank; the process group is there already."""
    torch.manual_seed(16)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    losses = []
    for inputs, target in shards(rank, world):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return outcome(losses, model)
