"""Training loops that look odd and are as they should be."""

import copy
import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS = 25
RULE = torch.linspace(-1, 1, 24).view(8, 3).sin()


def batch(size: int = 32) -> tuple[Tensor, Tensor]:
    """Points and their classes, which can be learned."""
    x = torch.randn(size, 8)
    return x, (x @ RULE).argmax(1)


def network(width: int = 16) -> nn.Sequential:
    """A small one."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """What follows every forward."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def scaler_that_skips() -> None:
    """The scale grows until a step overflows, is skipped and halves it, again and again."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=2)
    for _ in range(STEPS):
        x, y = batch()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def scaler_and_clipping() -> None:
    """Clipping multiplies infinite gradients by 0; the scaler then skips the step."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=4)
    for _ in range(STEPS):
        x, y = batch()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def scaler_and_accumulation() -> None:
    """An overflow in one of two micro-batches spoils the sum, and the scaler skips it."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=4)
    for _ in range(STEPS):
        for _ in range(2):
            x, y = batch()
            with torch.autocast("cpu", torch.float16):
                loss = F.cross_entropy(model(x), y) / 2
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def gan() -> None:
    """Two players that never see their losses as logarithms of 0."""
    maker, judge = nn.Linear(4, 8), network()
    for_maker = torch.optim.Adam(maker.parameters(), 1e-3)
    for_judge = torch.optim.Adam(judge.parameters(), 1e-3)
    for _ in range(STEPS):
        fake, real = maker(torch.randn(32, 4)), torch.randn(32, 8) + 1
        ahead = judge(real).mean(1) - judge(fake.detach()).mean(1)
        update(for_judge, F.softplus(-ahead).mean())
        update(for_maker, F.softplus(-judge(fake).mean(1)).mean())


def one_backward_for_each_loss() -> None:
    """Several backward passes into one step are no forgotten `zero_grad`."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(STEPS):
        x, y = batch()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        (1e-2 * model(x).square().mean()).backward()
        optimizer.step()


def accumulation() -> None:
    """Four micro-batches a step; gradients are cleared by setting them to None by hand."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for index in range(4 * STEPS):
        x, y = batch(8)
        (F.cross_entropy(model(x), y) / 4).backward()
        if index % 4 == 3:
            optimizer.step()
            for parameter in model.parameters():
                parameter.grad = None


def mean_teacher() -> None:
    """A frozen copy that is moved by hand towards the student."""
    student = network()
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    for _ in range(STEPS):
        x, y = batch()
        agree = F.mse_loss(student(x).softmax(-1), teacher(x).softmax(-1))
        update(optimizer, F.cross_entropy(student(x), y) + agree)
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.mul_(0.9).add_(fast, alpha=0.1)


def momentum_encoder() -> None:
    """Contrast with a queue of keys that a slow encoder makes; `lerp_` moves it."""
    encoder = network()
    slow = copy.deepcopy(encoder).requires_grad_(False)
    queue = F.normalize(torch.randn(64, 3))
    optimizer = torch.optim.SGD(encoder.parameters(), 0.05, momentum=0.9)
    for step in range(STEPS):
        x, _ = batch(8)
        query = F.normalize(encoder(x + 0.1 * torch.randn_like(x)))
        with torch.no_grad():
            key = F.normalize(slow(x))
        positive = (query * key).sum(1, keepdim=True)
        logits = torch.cat([positive, query @ queue.T], 1) / 0.5
        update(optimizer, F.cross_entropy(logits, torch.zeros(8, dtype=torch.long)))
        torch._foreach_lerp_(list(slow.parameters()), list(encoder.parameters()), 0.05)
        queue[8 * (step % 8) : 8 * (step % 8) + 8] = key


def averaged_model() -> None:
    """torch's own averaging of weights."""
    model = network()
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(STEPS):
        x, y = batch()
        update(optimizer, F.cross_entropy(model(x), y))
        average.update_parameters(model)
    with torch.no_grad():
        average.eval()(batch()[0])


def tied_weights() -> None:
    """One matrix in two layers."""
    torch.manual_seed(0)
    embed, out = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
    out.weight = embed.weight
    model = nn.Sequential(embed, nn.Linear(8, 8), nn.Tanh(), out)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(STEPS):
        tokens = torch.randint(0, 12, (32,))
        update(optimizer, F.cross_entropy(model(tokens), (tokens + 1) % 12))


def warm_up_from_zero() -> None:
    """Nothing changes in the first step, since the learning rate is 0 there."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 10))
    for _ in range(STEPS):
        x, y = batch()
        update(optimizer, F.cross_entropy(model(x), y))
        schedule.step()


def convolution_and_batch_norm() -> None:
    """Biases before a normalisation have no effect, so hardly a gradient; evaluation between."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    held_out = torch.randn(16, 1, 6, 6)
    for step in range(STEPS):
        x = torch.randn(16, 1, 6, 6)
        update(optimizer, F.cross_entropy(model.train()(x), (x.mean((1, 2, 3)) > 0).long()))
        if step % 5 == 4:
            with torch.no_grad():
                model.eval()(held_out)
                model(held_out)


def dropout_and_evaluation() -> None:
    """Two passes over the held-out data agree, as dropout is off; training passes do not."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    (x, y), (held_out, _) = batch(), batch()
    for step in range(STEPS):
        model.train()
        update(optimizer, F.cross_entropy(model(x), y))
        if step % 5 == 4:
            model.eval()
            with torch.no_grad():
                model(held_out)
                model(held_out)


def recurrent() -> None:
    """An LSTM whose state is carried from step to step, without its history."""
    torch.manual_seed(0)
    lstm, out = nn.LSTM(2, 8, batch_first=True), nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*lstm.parameters(), *out.parameters()], 1e-2)
    state = (torch.zeros(1, 4, 8), torch.zeros(1, 4, 8))
    for _ in range(STEPS):
        x = torch.randn(4, 6, 2)
        hidden, state = lstm(x, state)
        state = (state[0].detach(), state[1].detach())
        update(optimizer, (out(hidden).squeeze(-1) - x.sum(-1).tanh()).square().mean())


def parameter_groups() -> None:
    """Rates of their own, no decay for biases, and a group added later."""
    model, extra = network(), nn.Linear(3, 3)
    groups = [
        {"params": [model[0].weight, model[2].weight], "weight_decay": 0.01},
        {"params": [model[0].bias, model[2].bias], "lr": 1e-3},
    ]
    optimizer = torch.optim.AdamW(groups, 1e-2, weight_decay=0.0)
    for step in range(STEPS):
        if step == 5:
            optimizer.add_param_group({"params": list(extra.parameters())})
        x, y = batch()
        out = model(x) if step < 5 else model(x) + 0.1 * extra(model(x))
        update(optimizer, F.cross_entropy(out, y))


def head_trained_later() -> None:
    """An auxiliary head that takes part from step 8 on."""
    body, first, second = nn.Linear(8, 16), nn.Linear(16, 3), nn.Linear(16, 8)
    parameters = itertools.chain(*(part.parameters() for part in (body, first, second)))
    optimizer = torch.optim.Adam(parameters, 1e-2)
    for step in range(STEPS):
        x, y = batch()
        hidden = body(x).tanh()
        loss = F.cross_entropy(first(hidden), y)
        if step >= 8:
            loss = loss + F.mse_loss(second(hidden), x)
        update(optimizer, loss)


def frozen_body() -> None:
    """Fine-tuning as it should be done: the optimizer does not know what is frozen."""
    model = network()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), 0.1)
    for _ in range(STEPS):
        x, y = batch()
        update(optimizer, F.cross_entropy(model(x), y))


def gate_that_starts_closed() -> None:
    """A residual block behind a gate of 0: in step 0 its own weights have no gradient."""
    torch.manual_seed(0)
    block, gate, out = nn.Linear(8, 8), nn.Parameter(torch.zeros(())), nn.Linear(8, 3)
    optimizer = torch.optim.SGD([*block.parameters(), gate, *out.parameters()], 0.1)
    for _ in range(STEPS):
        x, y = batch()
        update(optimizer, F.cross_entropy(out(x + gate * block(x).tanh()), y))


def sparse_embedding() -> None:
    """Most rows get no gradient in most steps."""
    torch.manual_seed(0)
    embed, out = nn.Embedding(200, 8, sparse=True), nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*embed.parameters(), *out.parameters()], 0.1)
    for _ in range(STEPS):
        words = torch.randint(0, 200, (16, 3))
        update(optimizer, F.cross_entropy(out(embed(words).mean(1)), (words.sum(1) > 300).long()))


def alternating_optimizers() -> None:
    """An actor that steps once for every two steps of its critic."""
    actor, critic = network(), nn.Linear(8, 1)
    for_actor = torch.optim.SGD(actor.parameters(), 0.05)
    for_critic = torch.optim.SGD(critic.parameters(), 0.05)
    for step in range(2 * STEPS):
        x, y = batch()
        update(for_critic, (critic(x).squeeze(1) - x.mean(1)).square().mean())
        if step % 2:
            worth = critic(x).detach().squeeze(1).sigmoid()
            update(for_actor, (F.cross_entropy(actor(x), y, reduction="none") * worth).mean())


TRAININGS = (
    scaler_that_skips,
    scaler_and_clipping,
    scaler_and_accumulation,
    gan,
    one_backward_for_each_loss,
    accumulation,
    mean_teacher,
    momentum_encoder,
    averaged_model,
    tied_weights,
    warm_up_from_zero,
    convolution_and_batch_norm,
    dropout_and_evaluation,
    recurrent,
    parameter_groups,
    head_trained_later,
    frozen_body,
    gate_that_starts_closed,
    sparse_embedding,
    alternating_optimizers,
)
