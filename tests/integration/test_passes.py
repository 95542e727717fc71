"""Passes: nodes recur from pass to pass; calls know their pass and the calls they read from."""

from __future__ import annotations

import csv
import json
from bisect import bisect_right

import pytest
import torch
from torch import Tensor, nn

from helpers.forked import forked_opscope as opscope
from helpers.recorder import Recorder
from opscope.calls import Calls
from opscope.capture.node_book import MOST_NODES
from opscope.events import EVAL_GRAPH, TRAINING_GRAPH, Output
from opscope.messages import forget_said
from opscope.read.reader import open_reader

BATCHES = 200


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def passes_of(seen: Recorder, op_type: str, step: int, phase: str | None = None) -> list[int]:
    return [call.pass_number for call in seen.of_type(op_type, step, phase)]


def nodes_of(seen: Recorder, graph: int) -> list[str]:
    return [node.name for node in seen.nodes if node.graph == graph]


def assert_edges_are_true(seen: Recorder) -> None:
    """Every input is, bit by bit, the output of the call that it is said to come from."""
    edges = 0
    for record in seen.steps:
        calls = record.calls
        by_index = {call.index: call for call in seen.calls if call.step == record.step}
        for index, call in by_index.items():
            for slot, source in enumerate(calls.sources_of(index)):
                producer = calls.producer(index, slot)
                assert (producer is not None) == isinstance(source, Output)
                if producer is None or slot not in call.inputs:
                    continue
                assert producer < index
                assert calls.nodes[producer] is source.node
                made = by_index[producer].outputs.get(source.slot)
                if made is not None:
                    assert torch.equal(made, call.inputs[slot]), (index, slot, source)
                    edges += 1
    assert edges


def test_an_evaluation_is_passes_through_the_same_nodes(record) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        for _ in range(2):
            model.train()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                for number in range(BATCHES):
                    model(torch.full((2, 3), float(number))).argmax().item()
    assert passes_of(seen, "addmm", 1, "forward") == [0, 0]
    assert passes_of(seen, "tanh", 1, "eval") == list(range(BATCHES))
    assert len(nodes_of(seen, EVAL_GRAPH)) < 20
    (record_of_step,) = [r for r in seen.steps if r.step == 1]
    assert record_of_step.calls.pass_count == BATCHES
    assert_edges_are_true(seen)


def test_micro_batches_with_their_backward(record) -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        for _ in range(2):
            for number in range(4):
                model(torch.full((2, 3), float(number + 1))).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    for step in range(2):
        for op_type in ("tanh", "tanh_backward"):
            assert passes_of(seen, op_type, step) == [0, 1, 2, 3]
        losses = next(record.losses for record in seen.steps if record.step == step)
        calls = {call.index: call for call in seen.calls if call.step == step}
        assert [calls[loss.call].pass_number for loss in losses] == [0, 1, 2, 3]
        assert [calls[loss.call].outputs[0].item() for loss in losses] == [
            loss.value for loss in losses
        ]
    assert_edges_are_true(seen)


def test_backward_finds_the_pass_of_its_forward(record) -> None:
    """All forwards first, then one backward through all, or one each in another order."""
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as seen:
        for step in range(3):
            losses = [model(torch.full((2, 3), 0.1 * n)).square().sum() for n in range(3)]
            if step % 2:
                torch.stack(losses).sum().backward()
            else:
                for number in (1, 0, 2):
                    losses[number].backward()
            optimizer.step()
            optimizer.zero_grad()
    assert passes_of(seen, "tanh_backward", 0) == [1, 0, 2]
    assert sorted(passes_of(seen, "tanh_backward", 1)) == [0, 1, 2]
    assert passes_of(seen, "tanh_backward", 2) == [1, 0, 2]
    assert len({c.node for s in range(3) for c in seen.of_type("tanh_backward", s)}) == 1
    assert_edges_are_true(seen)


def test_a_closure_that_is_called_again_and_again(record) -> None:
    model = small()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=20, line_search_fn="strong_wolfe")
    calls = 0
    counts = []

    def closure() -> Tensor:
        nonlocal calls
        calls += 1
        optimizer.zero_grad()
        loss = (model(torch.linspace(0, 1, 12).view(4, 3)) - 1).square().sum()
        loss.backward()
        return loss

    with record() as seen:
        for _ in range(3):
            calls = 0
            optimizer.step(closure)
            counts.append(calls)
    for step, count in enumerate(counts):
        assert passes_of(seen, "tanh", step) == list(range(count))
    assert max(counts) > 5
    names = [node.name for node in seen.nodes if node.phase == "forward"]
    assert len(names) == len(set(names)) < 30
    assert_edges_are_true(seen)


def test_a_pass_begins_when_a_module_is_called_again(record) -> None:
    encoder, head, loss = nn.Linear(3, 4), nn.Linear(4, 2), nn.MSELoss()
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
    with record() as seen:
        for _ in range(2):
            for _ in range(2):
                loss(head(encoder(torch.ones(1, 3))), torch.ones(1, 2)).backward()
            optimizer.step()
    for step in range(2):
        assert passes_of(seen, "addmm", step) == [0, 0, 1, 1]
        assert passes_of(seen, "mse_loss", step) == [0, 1]


def test_one_state_handed_from_call_to_call(record) -> None:
    """A cell called in the script's own loop: each call reads what the one before it made."""
    cell = nn.GRUCell(3, 4)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    with record() as seen:
        for _ in range(2):
            hidden = torch.zeros(1, 4)
            for _ in range(5):
                hidden = cell(torch.ones(1, 3), hidden)
            hidden.sum().backward()
            optimizer.step()
    first = seen.of_type("addmm", 0)
    assert sorted({call.pass_number for call in first}) == [0, 1, 2, 3, 4]
    assert len({call.node for call in first}) == 2
    assert_edges_are_true(seen)


@pytest.mark.parametrize("count", [MOST_NODES, MOST_NODES + 1, 3 * MOST_NODES])
def test_a_place_that_is_passed_very_often(record, capsys, count) -> None:
    forget_said()
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.01)
    with record() as seen:
        for _ in range(2):
            value = weight
            for _ in range(count):
                value = value.sin()
            value.sum().backward()
            optimizer.step()
    for step in range(2):
        calls = seen.of_type("sin", step)
        assert len(calls) == count
        names = [call.node.name for call in calls]
        assert names[:MOST_NODES] == [f"Default/sin-op{n}" for n in range(min(count, MOST_NODES))]
        assert set(names[MOST_NODES:]) <= {f"Default/sin-op{MOST_NODES - 1}"}
    said = capsys.readouterr().err.count(f"more than {MOST_NODES} times")
    assert said == (count > MOST_NODES)
    assert_edges_are_true(seen)


def test_code_that_is_compiled_for_every_call(record) -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.01)
    with record() as seen:
        for _ in range(2 * MOST_NODES):
            loss = eval("weight.cos().sum()", {"weight": weight})
            loss.backward()
            optimizer.step()
    assert len({call.node for s in range(2 * MOST_NODES) for call in seen.of_type("cos", s)}) <= (
        MOST_NODES
    )


def test_modules_that_are_made_for_every_call(record) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with record() as seen:
        for _ in range(3 * MOST_NODES):
            nn.ReLU()(model(torch.ones(1, 2))).sum().backward()
            optimizer.step()
    assert len(nodes_of(seen, TRAINING_GRAPH)) < 10 * MOST_NODES


def test_passes_begin_one_after_the_other_with_a_gradient_inside_a_loss(record) -> None:
    """A gradient penalty runs a backward of its own in the middle of a step."""
    critic, maker = nn.Linear(3, 1), nn.Linear(2, 3)
    steps = [torch.optim.SGD(model.parameters(), 0.01) for model in (critic, maker)]
    with record() as seen:
        for _ in range(2):
            fake = maker(torch.randn(4, 2))
            loss = critic(fake.detach()).mean() - critic(torch.randn(4, 3)).mean()
            mixed = fake.detach().requires_grad_()
            (slope,) = torch.autograd.grad(critic(mixed).square().sum(), mixed, create_graph=True)
            loss = loss + slope.square().mean()
            loss.backward()
            steps[0].step()
            critic(fake).mean().backward()
            steps[1].step()
    for step in seen.steps:
        starts = step.calls.passes[::2]
        assert starts == sorted(starts)
        assert sum(len(nodes) for _, nodes in step.calls.stretches()) == len(step.calls)


def test_calls_by_hand() -> None:
    calls = Calls([])
    assert (calls.pass_of(0), calls.pass_count, list(calls.stretches())) == (0, 1, [])


FAULT = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    for number in range(3):
        x = torch.ones(2, 2)
        if (step, number) == (2, 1):
            x = x * 0
        model(x / x).sum().backward()
    optimizer.step()
"""


def test_the_verdict_names_the_pass(tmp_path) -> None:
    (tmp_path / "train.py").write_text(FAULT)
    result = opscope("run", "--run-dir", "found", "train.py", cwd=tmp_path)
    assert result.returncode == 3
    assert "NaN or Inf in step 2, pass 1, rank 0: it began here" in result.stderr
    hits = [json.loads(line) for line in (tmp_path / "found/rank_0/hits.jsonl").open()]
    assert {(hit["step"], hit["pass"]) for hit in hits} == {(2, 1)}
    assert hits[0]["verdict"]["op_type"] == "div"
    checked = opscope("check", "found", "--watch", "OO", "--json", cwd=tmp_path)
    (hit,) = json.loads(checked.stdout)["hits"]
    assert (hit["step"], hit["pass"], hit["name"]) == (2, 1, hits[0]["name"])
    listed = opscope("hits", "found", cwd=tmp_path)
    assert "div-op0:0@1" in listed.stdout


@pytest.mark.long
def test_readers_name_the_pass(tmp_path) -> None:
    healthy = FAULT.replace("x = x * 0", "pass")
    (tmp_path / "train.py").write_text(healthy)
    assert opscope("run", "--run-dir", "found", "train.py", cwd=tmp_path).returncode == 0
    run = open_reader(tmp_path / "found")
    values = run.select_values("addmm", steps=[1], io="output", slots=[0])
    assert [value.pass_number for value in values] == [0, 1, 2]
    assert {value.node.name for value in values} == {"Default/network-Linear/addmm-op0"}
    assert values[1].name == "Default/network-Linear/addmm-op0:0@1"
    (node,) = {value.node for value in values}
    assert {consumer.node.op_type for consumer in run.consumers(node)} == {"sum"}
    shown = opscope("show", "found", "addmm-op0:0@2", "--json", cwd=tmp_path)
    (output,) = json.loads(shown.stdout)["outputs"]
    assert {row["pass"] for row in output["rows"]} == {2}
    sql = "select distinct step, pass from stats where op_type = 'addmm' order by all"
    asked = opscope("query", "found", sql, "--json", cwd=tmp_path)
    found = json.loads(asked.stdout)
    assert [(row["step"], row["pass"]) for row in found] == [
        (step, number) for step in range(4) for number in range(3)
    ]
    steps = opscope("query", "found", "select passes from steps", "--json", cwd=tmp_path)
    assert [row["passes"] for row in json.loads(steps.stdout)] == [3] * 4


@pytest.mark.parametrize("enable", [True, False], ids=["sync", "async"])
def test_the_manifest_of_a_dump_says_where_passes_begin(tmp_path, enable) -> None:
    (tmp_path / "train.py").write_text(FAULT.replace("x = x * 0", "pass"))
    config = {
        "common_dump_settings": {
            "dump_mode": 0,
            "path": str(tmp_path / "out"),
            "net_name": "Net",
            "iteration": "1",
            "saved_data": "statistic",
            "input_output": 0,
            "kernels": [],
        },
        "e2e_dump_settings": {"enable": enable, "trans_flag": True},
    }
    (tmp_path / "dump.json").write_text(json.dumps(config))
    result = opscope("run", "--dump", "dump.json", "train.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    manifest = json.loads((tmp_path / "out/rank_0/.dump_metadata/manifest.json").read_text())
    (iteration,) = manifest["iterations"]
    assert [number for _, number in iteration["passes"]] == [1, 2]
    (table,) = (tmp_path / "out").rglob("statistic.csv")
    lines = [line for line in csv.DictReader(table.open()) if "addmm" in line["Op Name"]]
    tasks = {int(line["Task ID"]) for line in lines if "Gradients" not in line["Op Name"]}
    starts = [0, *(task for task, _ in iteration["passes"])]
    assert [bisect_right(starts, task) - 1 for task in sorted(tasks)] == [0, 1, 2]
