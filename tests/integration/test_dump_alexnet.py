"""The worked example of the docs: from a line of AlexNet to the values of its operator."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from test_dump_shared import load, write_config

from helpers.forked import forked_opscope as opscope

ALEXNET = Path(__file__).parents[2] / "examples" / "alexnet.py"
PAGE = Path(__file__).parents[2] / "docs" / "find-an-operator.md"
LINE = "x = self.conv3(x)"


@pytest.fixture(scope="module")
def rank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alexnet")
    shutil.copy(ALEXNET, folder / "alexnet.py")
    config = write_config(folder, iteration="0", net_name="AlexNet")
    done = opscope("run", "--dump", config, "alexnet.py", "--steps", "1", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "dump" / "rank_0"


def number_of_line() -> int:
    lines = ALEXNET.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == LINE)


def operators_at(rank: Path, line: int) -> dict[str, str]:
    """Op types by the full names of the operators that come from a line, as a person finds them."""
    text = (rank / "graphs/ms_output_trace_code_graph_0.ir").read_text()
    found = {}
    for block in text.split("\n\n"):
        if f"alexnet.py({line})/        {LINE}/" in block:
            name = re.search(r"full_name_with_scope: \((.*)\)", block)
            kind = re.search(r"\(output\) = (\w+)\(", block)
            assert name and kind
            found[name.group(1)] = kind.group(1)
    return found


def test_from_a_line_to_the_values(rank: Path) -> None:
    found = operators_at(rank, number_of_line())
    name = "Default/network-AlexNet/conv3-Conv2d/convolution-op0"
    assert found[name] == "convolution"
    assert any(kind == "convolution_backward" for kind in found.values())
    files = list((rank / "AlexNet/0/0").glob(f"convolution.{name.replace('/', '_')}.*"))
    (output,) = [file for file in files if ".output.0." in file.name]
    values = {
        f".input.{slot}.": load(next(f for f in files if f".input.{slot}." in f.name))
        for slot in range(3)
    }
    x, weight, bias = (torch.from_numpy(each) for each in values.values())
    expected = torch.nn.functional.conv2d(x, weight, bias, padding=1)
    np.testing.assert_allclose(load(output), expected.numpy(), rtol=1e-4, atol=1e-6)
    assert load(output).shape == (16, 48, 5, 5)


def test_the_page_shows_what_is_there(rank: Path) -> None:
    """The lines of the graph that the page quotes are in the file, paths aside."""
    page = PAGE.read_text()
    text = (rank / "graphs/ms_output_trace_code_graph_0.ir").read_text()
    (quoted,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)

    def plain(part: str) -> list[str]:
        lines = [line.strip() for line in part.splitlines() if line.strip()]
        lines = [re.sub(r"/\S*/alexnet\.py", "alexnet.py", line) for line in lines]
        return [re.sub(r"%\d+", "%N", re.sub(r"%para\d+", "%para", line)) for line in lines]

    available = set(plain(text))
    assert [line for line in plain(quoted) if line not in available] == []
    assert f"alexnet.py({number_of_line()})" in quoted
