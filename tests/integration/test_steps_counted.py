"""Steps as a person would count them, in the loops people write, by a counter of the script's own.

Each training counts its iterations itself and, where there are optimizers, torch's own hook counts
their steps: neither knows of opscope.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from opscope.capture import hook

X, Y = torch.linspace(-1, 1, 12).reshape(6, 2), torch.linspace(0, 1, 6).reshape(6, 1)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))


def loss_of(model: nn.Module) -> Tensor:
    return F.mse_loss(model(X), Y)


def completed(seen) -> list[int]:
    """The steps that came to their end, which are those that are counted."""
    return [step.step for step in seen.steps if step.complete]


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


# ---------------------------------------------------------------------- without an optimizer


def by_data() -> int:
    model = network()
    for _ in range(11):
        model.zero_grad()
        loss_of(model).backward()
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-0.1)
    return 11


def under_no_grad() -> int:
    model, criterion = network(), nn.MSELoss()
    for _ in range(10):
        criterion(model(X), Y).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    return 10


def with_a_transform_and_a_loss_that_are_modules() -> int:
    model, center, criterion = network(), nn.LayerNorm(2, elementwise_affine=False), nn.MSELoss()
    for _ in range(4):
        criterion(model(center(X)), Y).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        criterion(Y, Y)
    return 4


def tensors_alone() -> int:
    weight, bias = torch.zeros(2, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    for step in range(7):
        loss = (X @ weight + bias - Y).square().mean()
        loss.backward()
        if step % 2:
            assert loss.item() >= 0 and (X @ weight.detach() > 2).sum() <= 6
        with torch.no_grad():
            for each in (weight, bias):
                each -= 0.1 * each.grad
                each.grad = None
    return 7


def tensors_alone_with_data() -> int:
    weight = torch.zeros(2, 1).requires_grad_()
    for _ in range(4):
        F.mse_loss(X @ weight, Y).backward()
        weight.data -= 0.1 * weight.grad.data
        weight.grad.zero_()
    return 4


def functional_without_modules() -> int:
    weight = torch.zeros(2, 1)
    for _ in range(5):
        gradient = torch.func.grad(lambda w: F.mse_loss(X @ w, Y))(weight)
        weight = weight - 0.1 * gradient
    return 5


def by_autograd_grad() -> int:
    model = network()
    for _ in range(5):
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(loss_of(model), parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= 0.1 * gradient
    return 5


def functional() -> int:
    model = network()
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(values: dict[str, Tensor]) -> Tensor:
        return F.mse_loss(torch.func.functional_call(model, values, (X,)), Y)

    for _ in range(6):
        gradients = torch.func.grad(loss)(parameters)
        parameters = {k: v - 0.1 * gradients[k] for k, v in parameters.items()}
    return 6


def functional_per_sample() -> int:
    model = network()
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(values: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(torch.func.functional_call(model, values, (x,)), y)

    for _ in range(3):
        gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, X, Y)
        parameters = {k: v - 0.1 * gradients[k].mean(0) for k, v in parameters.items()}
    return 3


def a_gradient_penalty_before_the_loss() -> int:
    model = network()
    for _ in range(3):
        x = X.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (slope.square().mean() + loss_of(model)).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    return 3


def an_evaluation_between_steps_by_hand() -> int:
    model = network()
    for epoch in range(4):
        loss_of(model.train()).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
            if epoch % 2:
                model.eval()
                [model(x) for x in X]
    return 4


def two_networks_by_hand() -> int:
    encoder, decoder = nn.Linear(2, 2), nn.Linear(2, 2)
    for _ in range(4):
        F.mse_loss(decoder(encoder(X)), X).backward()
        with torch.no_grad():
            for parameter in [*encoder.parameters(), *decoder.parameters()]:
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    return 4


def probes_before_training_by_hand() -> int:
    model = network()
    model(X[:1])
    with torch.no_grad():
        model(X)
    return sum(_by_hand(model) for _ in range(3))


def _by_hand(model: nn.Module) -> int:
    loss_of(model).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
    return 1


def only_inference() -> int:
    model = network().eval()
    with torch.no_grad():
        return len([model(x) for x in X])


def only_inference_with_gradients_on() -> int:
    model = network()
    return len([model(x) for x in X])


def inference_of_two_networks() -> int:
    encoder, decoder = nn.Linear(2, 2), nn.Linear(2, 2)
    return len([decoder(encoder(x)) for x in X])


WITHOUT = (
    *(by_data, under_no_grad, with_a_transform_and_a_loss_that_are_modules, by_autograd_grad),
    *(tensors_alone, tensors_alone_with_data, functional_without_modules),
    *(functional, functional_per_sample, a_gradient_penalty_before_the_loss),
    *(an_evaluation_between_steps_by_hand, two_networks_by_hand, probes_before_training_by_hand),
    *(only_inference, only_inference_with_gradients_on, inference_of_two_networks),
)


@pytest.mark.parametrize("train", WITHOUT, ids=lambda train: train.__name__)
def test_without_an_optimizer(record, train: Callable[[], int]) -> None:
    with record() as seen:
        iterations = train()
    assert completed(seen) == list(range(iterations))
    assert len(seen.steps) <= iterations + 1


@pytest.mark.parametrize("train", (by_data, under_no_grad, by_autograd_grad))
def test_forward_backward_and_update_by_hand_are_one_step(record, train) -> None:
    with record() as seen:
        iterations = train()
    for step in range(iterations):
        assert len(seen.of_type("addmm", step, "forward")) == 2
        assert len(seen.of_type("tanh_backward", step)) == 1
        updates = [
            call
            for op in ("add_", "sub_")
            for call in seen.of_type(op, step)
            if getattr(call.sources[0], "kind", "") == "parameter"
        ]
        assert len(updates) == 4


# ---------------------------------------------------------------------- with optimizers


def a_probe_before_the_optimizer() -> int:
    model = network()
    model(X[:1])
    with torch.no_grad():
        model(X)
    return plain(model)


def plain(model: nn.Module | None = None) -> int:
    model = model or network()
    optimizer = sgd(model)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    return 3


def gan() -> int:
    generator, critic = nn.Linear(2, 2), nn.Linear(2, 1)
    optimizers = sgd(generator), sgd(critic)
    for _ in range(4):
        critic.zero_grad()
        (critic(generator(X).detach()).mean() - critic(X).mean()).backward()
        optimizers[1].step()
        generator.zero_grad()
        (-critic(generator(X)).mean()).backward()
        optimizers[0].step()
    return 4


def wgan() -> int:
    generator, critic = nn.Linear(2, 2), nn.Linear(2, 1)
    optimizers = sgd(generator), sgd(critic)
    for _ in range(3):
        for _ in range(5):
            critic.zero_grad()
            with torch.no_grad():
                fake = generator(X)
            (critic(fake).mean() - critic(X).mean()).backward()
            optimizers[1].step()
        generator.zero_grad()
        (-critic(generator(X)).mean()).backward()
        optimizers[0].step()
    return 3


def recreated_each_epoch() -> int:
    model = network()
    for _ in range(3):
        optimizer = sgd(model)
        for _ in range(2):
            loss_of(model).backward()
            optimizer.step()
    return 6


def recreated_while_the_old_one_is_kept() -> int:
    model, kept = network(), []
    for _ in range(3):
        optimizer = sgd(model)
        kept.append(torch.optim.lr_scheduler.StepLR(optimizer, 1))
        for _ in range(2):
            loss_of(model).backward()
            optimizer.step()
    return 6


def adam_first_then_lbfgs() -> int:
    model = network()
    adam = torch.optim.Adam(model.parameters())
    lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> Tensor:
        lbfgs.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    for _ in range(4):
        adam.zero_grad()
        loss_of(model).backward()
        adam.step()
    for _ in range(2):
        lbfgs.step(closure)
    return 6


def accumulated_over_micro_batches() -> int:
    model = network()
    optimizer = sgd(model)
    for _ in range(3):
        for part in X.split(2):
            model(part).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return 3


def evaluated_between_steps() -> int:
    model = network()
    optimizer = sgd(model)
    for _ in range(3):
        loss_of(model.train()).backward()
        optimizer.step()
        with torch.no_grad():
            model.eval()
            [model(x) for x in X]
    return 3


def evaluated_when_the_optimizer_is_gone() -> int:
    model = network()
    steps = plain(model)
    gc.collect()
    with torch.no_grad():
        [model.eval()(x) for x in X]
    return steps


def a_teacher_that_follows() -> int:
    model = network()
    teacher, optimizer = copy.deepcopy(model), sgd(model)
    for _ in range(3):
        with torch.no_grad():
            target = teacher(X)
        F.mse_loss(model(X), target).backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
    return 3


def scaled_with_a_step_skipped() -> int:
    model = network()
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu", init_scale=4.0)
    for step in range(4):
        optimizer.zero_grad()
        loss = loss_of(model) * (float("inf") if step == 1 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return 4


class Sharp(torch.optim.Optimizer):
    """Has another optimizer make its steps, over the same parameters."""

    def __init__(self, parameters) -> None:
        self.base = torch.optim.SGD(parameters, lr=0.1)
        super().__init__(self.base.param_groups, {})

    def step(self, closure=None) -> None:
        with torch.enable_grad():
            closure()
        self.base.step()
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.mul_(0.99)

    def second_step(self) -> None:
        self.base.step()


def an_optimizer_around_another() -> int:
    model = network()
    optimizer = Sharp(model.parameters())

    def closure() -> None:
        optimizer.zero_grad()
        loss_of(model).backward()

    for _ in range(4):
        optimizer.step(closure)
    return 4


def an_optimizer_that_only_has_another_step() -> int:
    model = network()
    optimizer = Sharp(model.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.second_step()
    return 4


WITH = (
    *(an_optimizer_around_another, an_optimizer_that_only_has_another_step),
    *(plain, a_probe_before_the_optimizer, gan, wgan, recreated_each_epoch),
    *(recreated_while_the_old_one_is_kept, adam_first_then_lbfgs, accumulated_over_micro_batches),
    *(evaluated_between_steps, evaluated_when_the_optimizer_is_gone, a_teacher_that_follows),
    scaled_with_a_step_skipped,
)
UPDATES = {gan: 8, wgan: 18, scaled_with_a_step_skipped: 3, an_optimizer_around_another: 8}
"""How often optimizers step, where that is not once per step."""


@pytest.mark.parametrize("train", WITH, ids=lambda train: train.__name__)
def test_with_optimizers(record, train: Callable[[], int]) -> None:
    updates: list[object] = []
    with record() as seen:
        handle = register_optimizer_step_post_hook(lambda *told: updates.append(type(told[0])))
        try:
            iterations = train()
        finally:
            handle.remove()
    assert completed(seen) == list(range(iterations))
    assert len(updates) == UPDATES.get(train, iterations)


def test_optimizers_in_turn_by_epoch_are_steps_once_one_is_given_up(record) -> None:
    models = network(), network()
    optimizers = [sgd(model) for model in models]
    with record() as seen:
        for epoch in range(2):
            for _ in range(40):
                loss_of(models[epoch]).backward()
                optimizers[epoch].step()
    # The other one is waited for while 32 steps are made; from then on each is a step.
    assert [len(step.losses) for step in seen.steps if step.complete] == ([32] + [1] * 8) * 2


@pytest.fixture(params=["native", "python"])
def capture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the native hook, and by the mode that stands in for it."""
    if request.param == "python":
        monkeypatch.setattr(hook, "load", lambda: None)


@pytest.mark.usefixtures("capture")
def test_a_step_of_tensors_alone_is_whole(record) -> None:
    with record() as seen:
        iterations = tensors_alone()
    for step in range(iterations):
        assert [c.node.phase.value for c in seen.of_type("mm", step)][:2] == ["forward", "backward"]
        updates = seen.of_type("sub_", step)
        assert [call.node.phase.value for call in updates] == ["optimizer"] * 2
        assert bool(seen.of_type("gt", step)) == bool(step % 2)


@pytest.mark.parametrize("train", WITHOUT, ids=lambda train: train.__name__)
def test_steps_that_are_not_recorded_are_counted_as_well(record, train) -> None:
    with record(steps=lambda step: step >= 2) as seen:
        iterations = train()
    assert completed(seen) == list(range(2, iterations))
