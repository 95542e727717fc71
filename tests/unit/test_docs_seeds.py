"""The docs say of every setting what the code says of it."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import pytest

import opscope
from opscope.settings.context import CONTEXT_KEYS, ENV_CONFIG_KEYS
from opscope.settings.context_keys import WITHOUT_EFFECT
from opscope.settings.dump import load_dump_settings
from opscope.settings.dump_keys import KEYS, STATISTICS
from opscope.settings.environment import VARIABLES
from opscope.settings.logs import COUNTERPARTS, WITHOUT_COUNTERPART
from opscope.settings.sections import SettingKey

DOCS = Path(__file__).parents[2] / "docs"
STATUSES = ("now", "later", "does not apply")
Table = list[list[str]]


def tables(file: str) -> dict[str, Table]:
    """The rows of every table, by the heading it stands under."""
    found: dict[str, Table] = {}
    heading = ""
    for line in (DOCS / file).read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").replace("`", "")
        elif line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            found.setdefault(heading, []).append(cells)
    return {heading: rows[2:] for heading, rows in found.items()}


def statuses(heading: str) -> dict[str, str]:
    """The status of every name under a heading; a name is what stands in backquotes."""
    found: dict[str, str] = {}
    for names, _, status, _ in tables("seeds.md")[heading]:
        whole = [names.replace("`", "")] if " = " in names else re.findall(r"`([^`]+)`", names)
        assert whole, names
        for name in whole:
            assert name not in found, f"{name} has two rows"
            found[name] = status
    return found


def test_every_row_has_a_status_and_a_reason() -> None:
    sections = {heading: rows for heading, rows in tables("seeds.md").items() if len(rows[0]) == 4}
    assert len(sections) >= 10
    for rows in sections.values():
        for name, guides, status, meaning in rows:
            assert status in STATUSES, name
            assert re.fullmatch(r"[RDCOA]( [RDCOA])*|-", guides), name
            assert meaning, name
            assert meaning.startswith("because ") == (status == "does not apply"), name


def test_dump_config() -> None:
    assert statuses("Dump config") == {key.dotted: "now" for key in KEYS}


def test_statistics() -> None:
    assert statuses("Statistics") == dict.fromkeys(STATISTICS, "now")


def test_environment_variables() -> None:
    expected = {name: variable.status for name, variable in VARIABLES.items()}
    assert statuses("Environment variables") == expected


def test_set_context() -> None:
    expected = dict.fromkeys(WITHOUT_EFFECT, "does not apply")
    expected |= {name: status for name, (status, _) in CONTEXT_KEYS.items()}
    expected |= {key.dotted: key.status for key in ENV_CONFIG_KEYS}
    assert statuses("set_context") == expected


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.dotted)
def test_the_dump_reference_has_every_key_and_its_default(key: SettingKey) -> None:
    rows = {cells[0].strip("`"): cells for cells in tables("dump.md")[key.section]}
    special = {"iteration": "required", "support_device": "all", "stat_calc_mode": "none"}
    shown = json.dumps(key.default) if key.name not in special else ""
    assert rows[key.name][2] == special.get(key.name, f"`{shown}`")
    assert "later" not in rows[key.name][3].lower()


def test_the_dump_reference_has_no_unknown_key() -> None:
    for section in {key.section for key in KEYS}:
        shown = [cells[0].strip("`") for cells in tables("dump.md")[section]]
        assert sorted(shown) == sorted(key.name for key in KEYS if key.section == section)


def test_the_dump_reference_has_every_statistic() -> None:
    shown = [cells[0].strip("`") for cells in tables("dump.md")["statistic_category"]]
    assert sorted(shown) == sorted(STATISTICS)


def test_the_examples_are_good_configs(tmp_path: Path) -> None:
    examples = re.findall(r"```json\n(.*?)```", (DOCS / "dump.md").read_text(), re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        file = tmp_path / "dump.json"
        file.write_text(example.replace("/data/dump", str(tmp_path / "dump")))
        assert load_dump_settings(str(file), {}).notices == ()


KIT = {
    "Model": "train.Model",
    "model.train": "train.Model.train",
    "model.eval": "train.Model.eval",
    "Callback": "train.Callback",
    "begin": "train.Callback.begin",
    "epoch_begin": "train.Callback.epoch_begin",
    "epoch_end": "train.Callback.epoch_end",
    "step_begin": "train.Callback.step_begin",
    "step_end": "train.Callback.step_end",
    "end": "train.Callback.end",
    "RunContext.original_args": "train.RunContext.original_args",
    "RunContext.request_stop": "train.RunContext.request_stop",
    "ModelCheckpoint": "train.ModelCheckpoint",
    "LossMonitor": "train.LossMonitor",
    "SummaryCollector": "train.SummaryCollector",
    "StopAtTime": "train.StopAtTime",
    "SaveCallback": "train.SaveCallback",
    "save_checkpoint": "train.save_checkpoint",
    "Metric": "train.Metric",
    "clear": "train.Metric.clear",
    "update": "train.Metric.update",
    "eval": "train.Metric.eval",
    "EvaluationBase": "train.EvaluationBase",
    "nn.Accuracy": "train.Accuracy",
    "nn.Loss": "train.Loss",
    "nn.Precision": "train.Precision",
    "nn.Recall": "train.Recall",
    "nn.F1": "train.F1",
    "ops.Print": "Print",
    "mindspore.set_context": "set_context",
    "mindspore.set_dump": "set_dump",
}
"""Functions and classes of the guides → what opscope has for them."""
ARGUMENTS = (
    *("loss_fn", "optimizer", "train_dataset", "epoch_num", "batch_num", "train_network"),
    *("cur_epoch_num", "cur_step_num", "parallel_mode", "list_callback", "net_outputs"),
)
"""What a callback can ask for; tests/integration/test_train_model.py asks for each."""


def test_functions_and_classes() -> None:
    found = {n for n, status in statuses("Functions and classes").items() if status == "now"}
    assert found == {*KIT, *ARGUMENTS, "numpy.load", "dataset_sink_mode"}
    for path in KIT.values():
        assert callable(functools.reduce(getattr, path.split("."), opscope)), path


def test_parts_that_log() -> None:
    rows = {names: status for names, _, status, _ in tables("seeds.md")["Logging"]}
    listed = {
        status: set(re.findall(r"`([A-Z_]+)`", names))
        for names, status in rows.items()
        if "sub-modules" in names
    }
    assert listed == {"now": set(COUNTERPARTS), "does not apply": set(WITHOUT_COUNTERPART)}
    assert set(rows.values()) == {"now", "does not apply"}
