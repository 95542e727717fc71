"""C++ headers of the numbers that Python and the native code have in common."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from opscope.events import Want
from opscope.native import shared
from opscope.native.build import HERE
from opscope.native.headers import hook_headers, stats_headers
from opscope.stats.record import ROW_DTYPE

_DEFINED = re.compile(r"^(?:constexpr \w+|) *(k\w+) = (\d+)[,;]$", re.MULTILINE)


def numbers_in(headers: Mapping[str, str]) -> dict[str, int]:
    """What the headers define."""
    found = [each for text in headers.values() for each in _DEFINED.findall(text)]
    assert len(dict(found)) == len(found), "a name is defined twice"
    return {name: int(number) for name, number in found}


def test_the_record_has_the_fields_of_the_array() -> None:
    numbers = numbers_in(stats_headers())
    fields = ROW_DTYPE.fields
    assert fields is not None
    assert numbers["kRecordBytes"] == ROW_DTYPE.itemsize
    for name, (_, offset, *_rest) in fields.items():
        words = "".join(word.capitalize() for word in name.split("_"))
        assert numbers[f"k{words}At"] == offset


def test_every_dtype_has_its_number() -> None:
    numbers = numbers_in(stats_headers())
    for name, number in shared.DTYPES.items():
        words = "".join(word.capitalize() for word in name.split("_"))
        assert numbers[f"k{words}"] == number


def test_what_is_wanted_has_the_flags_of_python() -> None:
    numbers = numbers_in(hook_headers())
    for want in Want:
        words = "".join(word.capitalize() for word in (want.name or "").split("_"))
        assert numbers[f"k{words}"] == want.value


@pytest.mark.parametrize(
    ("headers", "folder"), [(stats_headers(), HERE), (hook_headers(), HERE / "hook")]
)
def test_no_source_says_a_number_again(headers: dict[str, str], folder: Path) -> None:
    names = "|".join(numbers_in(headers))
    again = re.compile(rf"\b({names}) *= *[\d(]")
    files = [*folder.glob("*.h"), *folder.glob("*.cpp")]
    assert files
    assert not [(file.name, again.findall(text)) for file in files
                if again.search(text := file.read_text())]  # fmt: skip


def test_they_are_made_without_torch_and_numpy() -> None:
    """The package is built where neither is installed."""
    code = "import sys, opscope.native.build as b; b.stats_headers(); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy"} & {*run.stdout.split()}
