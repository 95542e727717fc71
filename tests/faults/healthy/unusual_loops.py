"""Healthy training loops that do unusual things with optimizers, passes and parameters."""

import copy
import io
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

from faults.healthy.unusual_losses import STEPS, network, points


def classify(model: nn.Module) -> Tensor:
    x, y = points()
    return F.cross_entropy(model(x), y)


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def averages_swapped_in() -> None:
    """Averaged weights take the place of the trained ones for each evaluation, and go again."""
    model = network()
    slow = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for step in range(STEPS):
        update(optimizer, classify(model))
        with torch.no_grad():
            for name, value in model.named_parameters():
                slow[name].lerp_(value, 0.05)
            if step % 25 == 24:
                kept = copy.deepcopy(model.state_dict())
                model.load_state_dict(slow)
                model.eval()
                classify(model).item()
                model.load_state_dict(kept)
                model.train()


def players_toggled_by_hand() -> None:
    """A GAN in which each player is frozen while the other learns."""
    made = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 8))
    critic = nn.Sequential(nn.Linear(8, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
    makes, judges = (torch.optim.Adam(m.parameters(), 2e-3, (0.5, 0.9)) for m in (made, critic))
    loss = F.binary_cross_entropy_with_logits
    for _ in range(STEPS):
        real = 0.5 * torch.randn(32, 8) + 1
        critic.requires_grad_(True)
        made.requires_grad_(False)
        false = critic(made(torch.randn(32, 4)))
        update(judges, loss(critic(real), torch.full((32, 1), 0.9)) + loss(false, 0 * false))
        critic.requires_grad_(False)
        made.requires_grad_(True)
        update(makes, loss(critic(made(torch.randn(32, 4))), torch.ones(32, 1)))


def micro_batches_left_out() -> None:
    """Four micro-batches a step; one that is empty, or whose loss is NaN, is left out."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.2)
    for step in range(STEPS):
        optimizer.zero_grad()
        for micro in range(4):
            x, y = points(8)
            if (step + micro) % 9 == 0:
                y = torch.full_like(y, -100)
            loss = F.cross_entropy(model(x), y)
            if not torch.isfinite(loss):
                continue
            (loss / 4).backward()
        optimizer.step()


def halves_with_a_scaler() -> None:
    """fp16 forward, a scale that begins far too high, clipping of unscaled gradients."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=20)
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = classify(model)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def brain_floats() -> None:
    """Autocast to bfloat16, without a scaler, weights in float32."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    for _ in range(STEPS):
        with torch.autocast("cpu", torch.bfloat16):
            loss = classify(model)
        update(optimizer, loss)


def closures_of_lbfgs() -> None:
    """Whole batches, a line search, and a loss that hardly falls any more in the end."""
    model = network()
    x, y = points(64)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        decay = sum(p.square().sum() for p in model.parameters())
        loss = F.cross_entropy(model(x), y) + 1e-3 * decay
        loss.backward()
        return loss

    for _ in range(30):
        optimizer.step(closure)


def sharpness_aware() -> None:
    """SAM: climb by hand, take the gradients there, go back, and step."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(STEPS):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            climbs = [p.grad * (0.05 / (norm + 1e-12)) for p in model.parameters()]
            for p, climb in zip(model.parameters(), climbs, strict=True):
                p.add_(climb)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for p, climb in zip(model.parameters(), climbs, strict=True):
                p.sub_(climb)
        optimizer.step()


def sparse_and_dense() -> None:
    """Sparse gradients for an embedding with an optimizer of its own."""
    words, head = nn.EmbeddingBag(200, 16, sparse=True), nn.Linear(16, 4)
    rare = torch.optim.SparseAdam(words.parameters(), 2e-2)
    dense = torch.optim.Adam(head.parameters(), 1e-2)
    for _ in range(STEPS):
        ids = torch.randint(0, 120, (32, 5))  # some words never come
        loss = F.cross_entropy(head(words(ids)), ids[:, 0] // 30)
        rare.zero_grad()
        dense.zero_grad()
        loss.backward()
        rare.step()
        dense.step()


def thawed_one_by_one() -> None:
    """The optimizer holds all; the body is frozen for 40 steps, then its layers join."""
    body = nn.ModuleList([nn.Linear(8, 24), nn.Linear(24, 24)])
    head = nn.Linear(24, 4)
    model = nn.Sequential(body[0], nn.ReLU(), body[1], nn.ReLU(), head)
    body.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    for step in range(STEPS):
        if step in (40, 70):
            body[1 if step == 40 else 0].requires_grad_(True)
        update(optimizer, classify(model))
    head.requires_grad_(False)
    for _ in range(20):  # and one is frozen again
        update(optimizer, classify(model))


def slower_from_layer_to_layer() -> None:
    """Rates that halve with each layer towards the input, and no decay for norms."""
    layers = [nn.Sequential(nn.Linear(24, 24), nn.LayerNorm(24), nn.GELU()) for _ in range(7)]
    model = nn.Sequential(nn.Linear(8, 24), *layers, nn.Linear(24, 4))
    groups = [
        {"params": list(layer.parameters()), "lr": 5e-3 * 0.5 ** (len(model) - 1 - depth)}
        for depth, layer in enumerate(model)
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    for _ in range(STEPS):
        update(optimizer, classify(model))


def averaged_at_the_end() -> None:
    """SWA from step 70 on, with a rate of its own, and statistics taken anew."""
    model = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 4))
    average = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    constant = SWALR(optimizer, 0.05, anneal_epochs=5)
    for step in range(STEPS):
        update(optimizer, classify(model))
        if step >= 70:
            average.update_parameters(model)
            constant.step()
    update_bn([points()[0] for _ in range(8)], average)
    average.eval()
    with torch.no_grad():
        classify(average)


def stopped_and_resumed() -> None:
    """Saved, made anew, loaded, and gone on with: model, optimizer, schedule."""
    file = io.BytesIO()
    for part in range(2):
        model = network()
        optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS, 1e-4)
        parts = (model, optimizer, schedule)
        if part:
            file.seek(0)
            for each, state in zip(parts, torch.load(file), strict=True):
                each.load_state_dict(state)
        for _ in range(STEPS // 2):
            update(optimizer, classify(model))
            schedule.step()
        torch.save([each.state_dict() for each in parts], file)


def warmed_up_from_nearly_nothing() -> None:
    """The rate begins at a hundred-millionth and takes 40 steps."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 10 ** (-6 * (1 - min(1.0, step / 40)))
    )
    for _ in range(STEPS):
        update(optimizer, classify(model))
        schedule.step()


def target_copied_now_and_then() -> None:
    """A Q-network and its target, which is a copy that is 25 steps old at most."""
    model = network()
    target = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for step in range(STEPS):
        state, best = points(64)
        action = torch.randint(0, 4, (64,))
        with torch.no_grad():
            future = target(torch.randn(64, 8)).max(1).values
            goal = (action == best).float() + 0.5 * future
        update(optimizer, F.smooth_l1_loss(model(state).gather(1, action[:, None])[:, 0], goal))
        if step % 25 == 24:
            target.load_state_dict(model.state_dict())


def worst_loss_so_far() -> None:
    """Early stopping with a best loss of Inf at first, in a tensor, and patience."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    best, patience = torch.tensor(math.inf), 0
    held = points(64)
    for _ in range(STEPS):
        update(optimizer, classify(model))
        model.eval()
        with torch.no_grad():
            loss = F.cross_entropy(model(held[0]), held[1])
        model.train()
        patience = 0 if loss < best else patience + 1
        best = torch.minimum(best, loss)
        if patience > 50:
            break


TRAININGS = (
    averages_swapped_in,
    players_toggled_by_hand,
    micro_batches_left_out,
    halves_with_a_scaler,
    brain_floats,
    closures_of_lbfgs,
    sharpness_aware,
    sparse_and_dense,
    thawed_one_by_one,
    slower_from_layer_to_layer,
    averaged_at_the_end,
    stopped_and_resumed,
    warmed_up_from_nearly_nothing,
    target_copied_now_and_then,
    worst_loss_so_far,
)
