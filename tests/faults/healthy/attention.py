"""Infinities that are meant: masks made in every way people make them, and searches over scores."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS = 25
LENGTH = 6
INF = float("inf")


def fit(
    loss_of: Callable[[int], Tensor], parameters: Iterable[nn.Parameter], lr: float = 1e-2
) -> None:
    """The loop of every training here."""
    optimizer = torch.optim.AdamW(parameters, lr)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(step).backward()
        optimizer.step()


class Mixer(nn.Module):
    """Causal attention by hand over tokens; the mask is up to the training."""

    def __init__(self, masked: Callable[[Tensor], Tensor], vocabulary: int = 11, width: int = 8):
        super().__init__()
        self.masked = masked
        self.tokens = nn.Embedding(vocabulary, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = self.qkv(self.tokens(tokens)).chunk(3, -1)
        scores = query @ key.mT / query.shape[-1] ** 0.5
        return self.out(self.masked(scores).softmax(-1) @ value)


def train_mixer(masked: Callable[[Tensor], Tensor]) -> None:
    """Next tokens of counting sequences."""
    torch.manual_seed(0)
    model = Mixer(masked)

    def loss(step: int) -> Tensor:
        tokens = (torch.randint(0, 11, (4, 1)) + torch.arange(LENGTH + 1)) % 11
        logits = model(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    fit(loss, model.parameters())


def future(length: int = LENGTH) -> Tensor:
    """Where one may not look."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def mask_by_masked_fill() -> None:
    train_mixer(lambda scores: scores.masked_fill(future(), -INF))


def mask_by_masked_fill_in_place() -> None:
    train_mixer(lambda scores: scores.masked_fill_(future(), -INF))


def mask_by_where() -> None:
    train_mixer(lambda scores: torch.where(future(), -INF, scores))


def mask_by_where_of_tensor() -> None:
    train_mixer(lambda scores: torch.where(future(), torch.tensor(-INF), scores))


def mask_by_full_and_triu() -> None:
    train_mixer(lambda scores: scores + torch.full((LENGTH, LENGTH), -INF).triu(1))


def mask_by_index() -> None:
    def masked(scores: Tensor) -> Tensor:
        mask = torch.zeros(LENGTH, LENGTH)
        mask[future()] = -INF
        return scores + mask

    train_mixer(masked)


def mask_from_outside() -> None:
    table = np.triu(np.full((LENGTH, LENGTH), -np.inf, dtype=np.float32), 1)
    train_mixer(lambda scores: scores + torch.from_numpy(table))


def mask_made_once() -> None:
    mask = torch.zeros(LENGTH, LENGTH).masked_fill(future(), -INF)
    train_mixer(lambda scores: scores + mask[: scores.shape[-2]])


class Buffered(nn.Module):
    """A mask kept as a buffer, as in many a GPT."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), -INF).triu(1))

    def forward(self, scores: Tensor) -> Tensor:
        return scores + self.mask


def mask_in_a_buffer() -> None:
    train_mixer(Buffered())


def online_softmax() -> None:
    """Attention in blocks with a running maximum that starts at -Inf."""

    def masked(scores: Tensor) -> Tensor:
        scores = scores.masked_fill(future(), -INF)
        largest = torch.full((*scores.shape[:-1], 1), -INF)
        total = torch.zeros_like(largest)
        for block in scores.split(2, -1):
            higher = torch.maximum(largest, block.amax(-1, keepdim=True))
            total = total * (largest - higher).exp() + (block - higher).exp().sum(-1, keepdim=True)
            largest = higher
        return scores - largest.detach()

    train_mixer(masked)


def train_layer(layer: Callable[[Tensor], Tensor], parameters: Iterable[nn.Parameter]) -> None:
    """Sequences of vectors to their means."""
    torch.manual_seed(0)

    def loss(step: int) -> Tensor:
        x = torch.randn(4, LENGTH, 8)
        return (layer(x).mean(1) - x.mean(1)).square().mean()

    fit(loss, parameters)


def padding() -> Tensor:
    """Which elements of four sequences are not there."""
    return torch.arange(LENGTH) >= torch.tensor([[6], [3], [1], [4]])


def sdpa_boolean() -> None:
    project = nn.Linear(8, 24)
    allowed = ~padding()[:, None, :]

    def layer(x: Tensor) -> Tensor:
        query, key, value = project(x).chunk(3, -1)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)

    train_layer(layer, project.parameters())


def sdpa_infinite() -> None:
    project = nn.Linear(8, 24)

    def layer(x: Tensor) -> Tensor:
        query, key, value = (part[:, None] for part in project(x).chunk(3, -1))
        mask = torch.zeros(4, 1, 1, LENGTH).masked_fill(padding()[:, None, None], -INF)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)[:, 0]

    train_layer(layer, project.parameters())


def sdpa_row_without_keys() -> None:
    """torch gives 0 for a query that may not look at anything."""
    project = nn.Linear(8, 24)
    allowed = torch.ones(4, 1, LENGTH, LENGTH, dtype=torch.bool)
    allowed[1, :, 2] = False

    def layer(x: Tensor) -> Tensor:
        query, key, value = (part[:, None] for part in project(x).chunk(3, -1))
        return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)[:, 0]

    train_layer(layer, project.parameters())


def multihead_with_padding() -> None:
    attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)

    def layer(x: Tensor) -> Tensor:
        return attention(x, x, x, key_padding_mask=padding(), attn_mask=future())[0]

    train_layer(layer, attention.parameters())


def transformer_encoder() -> None:
    block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
    causal = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    train_layer(lambda x: encoder(x, mask=causal), encoder.parameters())


def sampling_between_steps() -> None:
    """Top-k and nucleus filtering with -Inf, then drawing from what is left."""
    torch.manual_seed(0)
    model = Mixer(lambda scores: scores.masked_fill(future(scores.shape[-1]), -INF))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for _ in range(STEPS):
        tokens = torch.randint(0, 11, (2, 3))
        with torch.no_grad():
            for _ in range(3):
                logits = model(tokens)[:, -1]
                kept = logits.topk(4).values[:, -1:]
                logits = logits.masked_fill(logits < kept, -INF)
                ranked, order = logits.sort(descending=True)
                late = ranked.softmax(-1).cumsum(-1) - ranked.softmax(-1) > 0.9
                logits = logits.scatter(1, order, ranked.masked_fill(late, -INF))
                tokens = torch.cat([tokens, torch.multinomial(logits.softmax(-1), 1)], 1)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def beam_search_between_steps() -> None:
    """Beams that do not exist yet have the score -Inf."""
    torch.manual_seed(0)
    model = Mixer(lambda scores: scores.masked_fill(future(scores.shape[-1]), -INF))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(STEPS):
        beams, scores = torch.randint(0, 11, (1, 1)).repeat(3, 1), torch.full((3,), -INF)
        scores[0] = 0.0
        with torch.no_grad():
            for _ in range(4):
                chances = model(beams)[:, -1].log_softmax(-1)
                scores, best = (scores[:, None] + chances).flatten().topk(3)
                beams = torch.cat([beams[best // 11], (best % 11)[:, None]], 1)
        loss = F.cross_entropy(model(beams[:1, :-1])[0], beams[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def key_value_cache() -> None:
    """A cache that is allocated without being written, and filled as the sequence grows."""
    torch.manual_seed(0)
    project, out = nn.Linear(8, 24), nn.Linear(8, 8)

    def loss(step: int) -> Tensor:
        x, made = torch.randn(4, LENGTH, 8), []
        with torch.no_grad():
            keys, values = torch.empty(2, 4, LENGTH, 8)
            for position in range(LENGTH):
                query, key, value = project(x[:, position]).chunk(3, -1)
                keys[:, position], values[:, position] = key, value
                seen = keys[:, : position + 1]
                weights = (seen @ query[..., None]).squeeze(-1).softmax(-1)
                made.append((weights[..., None] * values[:, : position + 1]).sum(1))
        target = torch.stack(made, 1)
        query, key, value = project(x).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return (out(mixed) - target - x).square().mean()

    fit(loss, [*project.parameters(), *out.parameters()])


def classes_masked_out() -> None:
    """Logits of classes that a task does not have are -Inf before the cross entropy."""
    torch.manual_seed(0)
    model = nn.Linear(8, 6)

    def loss(step: int) -> Tensor:
        x = torch.randn(16, 8)
        absent = torch.arange(6) >= 3 + step % 3
        logits = model(x).masked_fill(absent, -INF)
        chances = logits.log_softmax(-1)
        return F.nll_loss(chances, torch.arange(16) % 3) + F.cross_entropy(
            logits, x[:, :3].argmax(1)
        )

    fit(loss, model.parameters())


def ctc() -> None:
    """The paths that a CTC loss leaves out are -Inf inside it."""
    torch.manual_seed(0)
    model = nn.Linear(8, 5)

    def loss(step: int) -> Tensor:
        chances = model(torch.randn(10, 3, 8)).log_softmax(-1)
        target = torch.randint(1, 5, (3, 4))
        return F.ctc_loss(chances, target, torch.tensor([10, 9, 8]), torch.tensor([4, 2, 3]))

    fit(loss, model.parameters())


def softmax_over_segments() -> None:
    """A maximum per segment, from -Inf on, as graph attention takes it."""
    torch.manual_seed(0)
    score, out = nn.Linear(8, 1), nn.Linear(8, 3)

    def loss(step: int) -> Tensor:
        x, segment = torch.randn(20, 8), torch.arange(20) % 5
        scores = score(x).squeeze(1)
        start = torch.full((6,), -INF)
        largest = start.scatter_reduce(0, segment, scores.detach(), "amax")
        weights = (scores - largest[segment]).exp()
        total = torch.zeros(6).index_add(0, segment, weights)
        mixed = torch.zeros(6, 8).index_add(0, segment, (weights / total[segment])[:, None] * x)
        return F.cross_entropy(out(mixed[:5]), torch.arange(5) % 3)

    fit(loss, [*score.parameters(), *out.parameters()])


TRAININGS = (
    mask_by_masked_fill,
    mask_by_masked_fill_in_place,
    mask_by_where,
    mask_by_where_of_tensor,
    mask_by_full_and_triu,
    mask_by_index,
    mask_from_outside,
    mask_made_once,
    mask_in_a_buffer,
    online_softmax,
    sdpa_boolean,
    sdpa_infinite,
    sdpa_row_without_keys,
    multihead_with_padding,
    transformer_encoder,
    sampling_between_steps,
    beam_search_between_steps,
    key_value_cache,
    classes_masked_out,
    ctc,
    softmax_over_segments,
)
