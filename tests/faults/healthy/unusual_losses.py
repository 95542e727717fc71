"""Healthy trainings with losses and layers that look wrong to those who look at numbers only."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

INF = math.inf
STEPS = 110
"""A loss that does not fall is told of after 100."""


def points(size: int = 32, classes: int = 4) -> tuple[Tensor, Tensor]:
    """Points and their classes, which can be learned."""
    x = torch.randn(size, 8)
    return x, x[:, :classes].argmax(1)


def network(outputs: int = 4, width: int = 24) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, width), nn.GELU(), nn.Linear(width, outputs))


def fit(model: nn.Module, loss_of, rate: float = 5e-3) -> None:
    """The loop of every training here; `loss_of` is told the step."""
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(step).backward()
        optimizer.step()


class GuardedAttention(nn.Module):
    """A softmax of rows that are masked entirely is NaN, and made 0 afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) / math.sqrt(8)
        weights = scores.masked_fill(padding[:, None], -INF).softmax(-1).nan_to_num(0.0)
        return self.head((weights @ self.value(x)).sum(1) + x[:, 0])


def rows_masked_and_guarded() -> None:
    model = GuardedAttention()

    def loss_of(step: int) -> Tensor:
        x = torch.randn(16, 5, 8)
        padding = torch.arange(5) >= torch.randint(0, 6, (16, 1))
        return F.cross_entropy(model(x, padding), x[:, 0, :4].argmax(1))

    fit(model, loss_of)


def guarded_by_where() -> None:
    """Means of groups, some of which have no member, and a logarithm of what may be 0."""
    model = network(1)

    def loss_of(step: int) -> Tensor:
        x, y = points()
        out = model(x).squeeze(1)
        chosen = F.one_hot(y, 6).float()  # two classes have no member, ever
        count = chosen.sum(0)
        mean = torch.where(count > 0, (chosen * out[:, None]).sum(0) / count.clamp(min=1), 0.0)
        share = count / count.sum()
        entropy = torch.where(share > 0, share * share.log(), 0.0).sum()
        return (mean - torch.arange(6.0)).square()[:4].mean() + 0 * entropy.detach()

    fit(model, loss_of)


def sensors_that_drop_out() -> None:
    """NaN says that a sensor was silent; it is replaced, and a second channel says so."""
    model = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 4))

    def loss_of(step: int) -> Tensor:
        x, y = points()
        x = torch.where(torch.rand_like(x) < 0.1, math.nan, x)
        known = ~x.isnan()
        return F.cross_entropy(model(torch.cat([x.nan_to_num(0.0), known.float()], 1)), y)

    fit(model, loss_of)


def sequences_without_labels() -> None:
    """Some sequences of a batch have no label but -100; the mean is over those that have."""
    model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))

    def loss_of(step: int) -> Tensor:
        ids = torch.randint(0, 20, (6, 9))
        labels = torch.where(torch.rand(6, 9) < 0.5, (ids + 1) % 20, -100)
        labels[step % 6] = -100
        each = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), reduction="none")
        each = each.view(6, 9).sum(1) / (labels != -100).sum(1).clamp(min=1)
        return each.mean()

    fit(model, loss_of, 2e-2)


def contrast_without_itself() -> None:
    """Nothing is its own negative: -Inf on the diagonal."""
    model = network(8)

    def loss_of(step: int) -> Tensor:
        x = torch.randn(12, 8)
        both = torch.cat([x, x + 0.1 * torch.randn_like(x)])
        made = F.normalize(model(both), dim=1)
        scores = made @ made.T / 0.2
        scores.fill_diagonal_(-INF)
        return F.cross_entropy(scores, torch.arange(24).roll(12))

    fit(model, loss_of)


class Chain(nn.Module):
    """A conditional random field with a start and transitions that cannot be."""

    def __init__(self, tags: int = 5) -> None:
        super().__init__()
        self.emits = nn.Linear(8, tags)
        self.starts = nn.Parameter(0.1 * torch.randn(tags))
        self.moves = nn.Parameter(0.1 * torch.randn(tags, tags))
        never = torch.zeros(tags, tags, dtype=torch.bool)
        never[3, 4] = never[2, 1] = never[2, 3] = never[0, 0] = True
        self.register_buffer("never", never)

    def forward(self, x: Tensor, tags: Tensor) -> Tensor:
        emits, moves = self.emits(x), self.moves.masked_fill(self.never, -INF)
        starts = self.starts.index_fill(0, torch.tensor([0, 4]), -INF)
        alpha = starts + emits[:, 0]
        score = starts[tags[:, 0]] + emits[:, 0].gather(1, tags[:, :1])[:, 0]
        for t in range(1, x.shape[1]):
            alpha = torch.logsumexp(alpha[:, :, None] + moves, 1) + emits[:, t]
            score = score + moves[tags[:, t - 1], tags[:, t]]
            score = score + emits[:, t].gather(1, tags[:, t, None])[:, 0]
        return (torch.logsumexp(alpha, 1) - score).mean()


def forward_algorithm() -> None:
    model = Chain()

    def loss_of(step: int) -> Tensor:
        x = torch.randn(8, 6, 8)
        return model(x, 1 + 2 * (x[..., 0] > 0).long())  # tags 1 and 3

    fit(model, loss_of, 2e-2)


def draws_by_gumbel() -> None:
    """A hard choice with the slope of a soft one, colder and colder."""
    encoder, decoder = network(6), nn.Linear(6, 8)

    def loss_of(step: int) -> Tensor:
        kind = torch.randint(0, 6, (32,))
        x = 2 * F.one_hot(kind, 8).float() + 0.1 * torch.randn(32, 8)
        code = F.gumbel_softmax(encoder(x), tau=max(0.3, 1 - step / 100), hard=True)
        return F.mse_loss(decoder(code), x)

    fit(nn.ModuleList([encoder, decoder]), loss_of, 1e-2)


def clipped_ratios() -> None:
    """PPO: each batch is used for four updates, and ratios beyond the clip have no gradient."""
    actor, critic = network(4), network(1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 3e-3)
    for _ in range(STEPS // 4):
        state, best = points(64)
        with torch.no_grad():
            policy = torch.distributions.Categorical(logits=actor(state))
            action = policy.sample()
            before, value = policy.log_prob(action), critic(state).squeeze(1)
        reward = (action == best).float()
        advantage = reward - value
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        for _ in range(4):
            policy = torch.distributions.Categorical(logits=actor(state))
            ratio = (policy.log_prob(action) - before).exp()
            gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            error = F.mse_loss(critic(state).squeeze(1), reward)
            optimizer.zero_grad()
            (0.5 * error - gain - 0.01 * policy.entropy().mean()).backward()
            nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 0.5)
            optimizer.step()


def divergence_warmed_up() -> None:
    """A VAE whose divergence counts nothing at first."""
    encoder, decoder = network(8), nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 8))

    def loss_of(step: int) -> Tensor:
        x = torch.randn(32, 2) @ torch.linspace(-1, 1, 16).view(2, 8)
        mean, log_variance = encoder(x).chunk(2, dim=1)
        made = decoder(mean + torch.randn_like(mean) * (0.5 * log_variance).exp())
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
        return F.mse_loss(made, x) + min(1.0, step / 80) * 0.1 * divergence

    fit(nn.ModuleList([encoder, decoder]), loss_of)


class Experts(nn.Module):
    """The best of four experts for each point; the last is rarely asked."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(8, 4)
        self.experts = nn.ModuleList(network() for _ in range(4))
        nn.init.constant_(self.router.bias[3:], -2.5)

    def forward(self, x: Tensor) -> Tensor:
        chance = self.router(x).softmax(1)
        share, chosen = chance.max(1)
        out = x.new_zeros(len(x), 4)
        for number, expert in enumerate(self.experts):
            mine = (chosen == number).nonzero()[:, 0]
            if len(mine):
                out = out.index_add(0, mine, share[mine, None] * expert(x[mine]))
        return out


def experts_rarely_asked() -> None:
    model = Experts()

    def loss_of(step: int) -> Tensor:
        x, y = points(24)
        return F.cross_entropy(model(x), y)

    fit(model, loss_of)


def parametrised_weights() -> None:
    """Weight norm and spectral norm: the weights are made anew in every forward."""
    model = nn.Sequential(
        *(weight_norm(nn.Linear(8, 24)), nn.LeakyReLU(0.2)),
        *(spectral_norm(nn.Linear(24, 24)), nn.LeakyReLU(0.2), nn.Linear(24, 4)),
    )

    def loss_of(step: int) -> Tensor:
        x, y = points()
        return F.cross_entropy(model(x), y)

    fit(model, loss_of)


class Packed(nn.Module):
    """A GRU of sequences of all lengths, sorted by torch."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.head(out[torch.arange(len(x)), lengths - 1])


def packed_sequences() -> None:
    model = Packed()

    def loss_of(step: int) -> Tensor:
        x, lengths = torch.randn(16, 7, 8), torch.randint(1, 8, (16,))
        lengths[0] = 7
        x = x * (torch.arange(7) < lengths[:, None])[..., None]
        return F.cross_entropy(model(x, lengths), x[torch.arange(16), lengths - 1, :4].argmax(1))

    fit(model, loss_of, 1e-2)


def nearly_all_dropped() -> None:
    """Dropout of nine in ten, and one image at a time through a batch norm in evaluations."""
    model = nn.Sequential(
        *(nn.Linear(8, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.9), nn.Linear(128, 4)),
    )

    def loss_of(step: int) -> Tensor:
        if step % 20 == 10:
            model.eval()
            with torch.no_grad():
                for x, y in (points(1) for _ in range(4)):
                    F.cross_entropy(model(x), y).item()
            model.train()
        x, y = points(64)
        return F.cross_entropy(model(x), y)

    fit(model, loss_of)


def one_class_at_first() -> None:
    """A curriculum: batches of one class, then of two, then of all."""
    model = network()

    def loss_of(step: int) -> Tensor:
        x, y = points(128)
        keep = y < (1 if step < 10 else 2 if step < 30 else 4)
        return F.cross_entropy(model(x[keep]), y[keep])

    fit(model, loss_of)


TRAININGS = (
    rows_masked_and_guarded,
    guarded_by_where,
    sensors_that_drop_out,
    sequences_without_labels,
    contrast_without_itself,
    forward_algorithm,
    draws_by_gumbel,
    clipped_ratios,
    divergence_warmed_up,
    experts_rarely_asked,
    parametrised_weights,
    packed_sequences,
    nearly_all_dropped,
    one_class_at_first,
)
