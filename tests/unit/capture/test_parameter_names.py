"""Names of parameters, buffers and optimizer state, and facts about them."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

from opscope.capture.parameters import TensorNames, bad_gradients, parameter_facts


@pytest.fixture
def names() -> TensorNames:
    return TensorNames()


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))


def test_a_module_names_what_it_owns(names: TensorNames) -> None:
    model = network()
    names.add_root(model)
    names.add_root(model)
    assert [name for name, _ in names.parameters()] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert dict(names.buffers())["1.running_mean"] is model[1].running_mean
    assert list(names.roots()) == [model]
    found = names.parameter(model[0].weight)
    assert (found.kind, found.name, found.subject) == ("parameter", "0.weight", "0.weight")


def test_the_first_module_names_and_later_ones_are_told_apart(names: TensorNames) -> None:
    first, second = nn.Linear(1, 1), nn.Linear(1, 1)
    second.bias = first.bias
    names.add_root(first)
    names.add_root(second)
    assert names.parameter(first.weight).name == "weight"
    assert names.parameter(second.weight).name == "Linear.weight"
    assert names.parameter(second.bias).name == "bias"


def test_parameters_that_are_new_or_of_no_module(names: TensorNames) -> None:
    model = network()
    names.add_root(model)
    model.extra = nn.Parameter(torch.ones(1))
    assert names.parameter(model.extra).name == "extra"
    loose = [torch.ones(1, requires_grad=True) for _ in range(2)]
    assert [names.parameter(each).name for each in loose] == ["unnamed.0", "unnamed.1"]


def test_a_module_names_what_had_no_name(names: TensorNames) -> None:
    layer = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    names.add_optimizer(optimizer)
    assert names.parameter(layer.weight).name == "unnamed.0"
    names.add_root(layer)
    assert names.parameter(layer.weight).name == "weight"


def test_the_state_of_an_optimizer_is_named_after_its_parameters(names: TensorNames) -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.Adam(model.parameters())
    names.add_root(model)
    names.add_optimizer(optimizer)
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    names.add_new_state(optimizer)
    entry = names.by_id[id(optimizer.state[model.weight]["exp_avg"])]
    assert (entry.kind, entry.name, entry.subject) == ("state", "weight.exp_avg", "weight")
    assert id(optimizer.state[model.bias]["exp_avg_sq"]) in names.by_id


def test_a_name_leaves_with_its_tensor(names: TensorNames) -> None:
    model = nn.Linear(1, 1)
    names.add_root(model)
    del model
    gc.collect()
    assert names.by_id == {}
    assert list(names.roots()) == []
    again = nn.Linear(1, 1)
    names.add_root(again)
    assert names.parameter(again.weight).name == "weight", "the name is free again"


def test_unnamed_parameters_of_each_step_have_the_same_names(names: TensorNames) -> None:
    """Else each step would have call sites of its own, of their gradients."""
    stays = torch.ones(1, requires_grad=True)
    assert names.parameter(stays).name == "unnamed.0"
    for _ in range(3):
        loose = [torch.ones(1, requires_grad=True) for _ in range(2)]
        assert [names.parameter(each).name for each in loose] == ["unnamed.1", "unnamed.2"]
        del loose
    assert names.parameter(stays).name == "unnamed.0"


def test_modules_and_optimizers_that_are_gone_leave_nothing_behind(names: TensorNames) -> None:
    """Many trainings make their loss anew in each step, some the whole network."""
    weight = torch.ones(2, requires_grad=True)
    kept = []
    for _ in range(50):
        module, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD([weight], lr=0.1)
        names.add_root(module)
        names.add_optimizer(optimizer)
        kept.append((module, optimizer))
    assert (len(names._roots), len(names._sizes), len(names._optimizers)) == (50, 50, 50)
    assert list(names.roots()) == [module for module, _ in kept]
    kept.clear()
    del module, optimizer
    assert (len(names._roots), len(names._sizes), len(names._optimizers)) == (0, 0, 0)


def test_an_optimizer_at_the_address_of_another_is_looked_at(names: TensorNames) -> None:
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
    names.add_optimizer(optimizer)
    names._dismiss(id(optimizer), names._optimizers[id(optimizer)])  # as when it dies
    optimizer.param_groups[0]["params"] = [torch.zeros(2, requires_grad=True)]
    names.add_optimizer(optimizer)
    assert len(list(names.parameters())) == 1
    names._dismiss(id(optimizer), weakref.ref(optimizer, lambda ref: None))
    assert len(names._sizes) == 1, "another one is there by now"


def test_a_tensor_may_be_let_go_of_and_taken_back(names: TensorNames) -> None:
    model = nn.Linear(1, 1)
    names.add_root(model)
    key = names.let_go(model.weight)
    entry = names.by_id.pop(key)
    names.take_back(model.weight, entry)
    assert names.parameter(model.weight) is entry


def test_facts_as_an_optimizer_is_about_to_step(names: TensorNames) -> None:
    model = network().eval()
    model[0].bias.requires_grad_(False)
    model[1].requires_grad = False  # has no effect, but says what was meant
    names.add_root(model)
    one = torch.optim.SGD([model[0].weight], lr=0.1)
    other = torch.optim.SGD([model[1].weight], lr=0.1)
    model[0].weight.grad = torch.ones(2, 2)
    facts = {fact.name: fact for fact in parameter_facts(names, [one, other], one)}
    weight, bias, norm = facts["0.weight"], facts["0.bias"], facts["1.weight"]
    assert not weight.frozen and weight.has_gradient and weight.owned and weight.stepping
    assert bias.frozen and not (bias.has_gradient or bias.owned or bias.stepping)
    assert (norm.frozen, norm.owned, norm.stepping) == (True, True, False)
    assert all(fact.in_eval for fact in facts.values())
    model.train()
    assert not any(fact.in_eval for fact in parameter_facts(names, [one], None))


def test_gradients_that_are_not_finite(names: TensorNames) -> None:
    model = nn.Linear(2, 1)
    names.add_root(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert bad_gradients(names, optimizer) == []
    model.weight.grad = torch.tensor([[1.0, float("inf")]])
    model.bias.grad = torch.ones(1)
    assert bad_gradients(names, optimizer) == ["weight"]
    model.bias.grad = torch.tensor([float("nan")]).to_sparse()
    assert bad_gradients(names, optimizer) == ["weight", "bias"]
    assert bad_gradients(names, torch.optim.SGD([model.bias], lr=0.1)) == ["bias"]
