from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.errors import OpscopeError
from opscope.settings.handover import HANDOVER_VARIABLE, hand_over, handed_over
from opscope.settings.iterations import Iterations
from opscope.settings.recorder import RecorderSettings
from opscope.settings.run import RunSettings, load_run_settings

WriteConfig = Callable[..., str]


@pytest.fixture
def full(tmp_path: Path, write_config: WriteConfig) -> RunSettings:
    common = {
        "dump_mode": 1,
        "iteration": " 0 | 5-8",
        "kernels": ["conv", "name-regex(.*\\d)"],
        "support_device": [1, 2],
        "overflow_number": 3,
    }
    flags: dict[str, object] = {
        "dump": write_config(common, {"enable": True, "stat_calc_mode": "host"}),
        "run_dir": tmp_path / "r\udcff",
        "steps": "0-3",
        "include": "setup,eval",
        "scope": "*/ä",
        "budget": "1TiB",
    }
    return load_run_settings(flags, {}, tmp_path)


def test_the_same_again(full: RunSettings) -> None:
    again = RunSettings.from_json(full.to_json())
    assert again == full
    assert again.dump is not None
    assert full.dump is not None
    assert again.dump.kernels[1].matches("a1", "", "")
    assert again.dump.iterations.text == full.dump.iterations.text
    assert again.writes_run == full.writes_run
    assert RunSettings.from_json(RunSettings().to_json()) == RunSettings()


def test_through_the_environment(full: RunSettings) -> None:
    assert handed_over({HANDOVER_VARIABLE: hand_over(full)}) == full
    assert handed_over({}) is None
    assert handed_over({HANDOVER_VARIABLE: ""}) is None


def test_a_large_config_fits_into_a_variable(tmp_path: Path, write_config: WriteConfig) -> None:
    names = [f"Default/network-Net/layers-ModuleList/{i}-Block/mm-op{i}" for i in range(5000)]
    file = write_config({"dump_mode": 1, "kernels": names})
    settings = load_run_settings({"dump": file}, {}, tmp_path)
    assert len(settings.to_json()) > 2 * 128 * 1024
    value = hand_over(settings)
    assert len(value) < 128 * 1024
    assert handed_over({HANDOVER_VARIABLE: value}) == settings


def test_settings_can_be_pickled(full: RunSettings) -> None:
    assert pickle.loads(pickle.dumps(full)) == full


@given(
    st.builds(
        RunSettings,
        watch=st.text(),
        stats=st.booleans(),
        recorder=st.builds(
            RecorderSettings, st.booleans(), st.sampled_from([1, 2]), st.text(), st.integers(0, 9)
        ),
        every=st.integers(1, 10**9),
        steps=st.sampled_from(["all", "0", "3-9|12"]).map(Iterations.parse),
        scope=st.none() | st.text(),
        run_dir=st.none() | st.just(Path("/a b/c")),
        include=st.frozensets(st.sampled_from(["setup", "eval"])),
        notices=st.lists(st.text()).map(tuple),
        disabled=st.booleans(),
    )
)
def test_round_trip(settings: RunSettings) -> None:
    assert RunSettings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"version": 1}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(OpscopeError, match="not settings of a run"):
        RunSettings.from_json(text)


def test_another_version_is_refused() -> None:
    data = json.loads(RunSettings().to_json()) | {"version": 0}
    with pytest.raises(OpscopeError, match="another version"):
        RunSettings.from_json(json.dumps(data))


@pytest.mark.parametrize("value", ["x", "%%%", "YWJj"])
def test_a_damaged_variable_is_refused(value: str) -> None:
    with pytest.raises(OpscopeError, match=f"{HANDOVER_VARIABLE} is damaged"):
        handed_over({HANDOVER_VARIABLE: value})
