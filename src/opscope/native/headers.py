"""C++ headers of the numbers in `shared.py`, made when a library is built."""

from __future__ import annotations

from collections.abc import Mapping

from opscope.native import shared

_RECORD_H = "record.h"


_PHASES = (
    *("SETUP", "FORWARD", "BACKWARD", "OPTIMIZER", "EVAL", "DATA", "EARLY_DATA"),
    *("AFTER_BACKWARD", "AWAITING_FORWARD"),
)


def stats_headers() -> dict[str, str]:
    """The headers of the statistics library, by name."""
    return {_RECORD_H: _record(), "dtype_numbers.h": _dtype_numbers()}


def hook_headers() -> dict[str, str]:
    """The headers of the native observer, by name."""
    return {_RECORD_H: _record(), "capture.h": _capture(), "device_rows.h": _device_rows()}


def recorder_headers() -> dict[str, str]:
    """The headers of the native recorder, by name."""
    return {"ring_layout.h": _ring()}


def _ring() -> str:
    markers = ("SIGNAL", "FAST_EXIT", "EXIT", "EXCEPTION", "HANG", "FINISHED")
    names = ("OPERATOR", "SCOPE", "SITE", "NODE", "GROUP")
    sizes = ("RING_HEADER_BYTES", "RING_MARKERS", "RING_MARKER_BYTES", "RING_MOST_MARKERS")
    limits = ("RING_RECORD_BYTES", "NAME_HEAD_BYTES", "MOST_NAMES")
    return _header(
        "The layout of the file that the recorder writes.",
        _constants("uint64_t", _named("RING_MAGIC", *sizes, *limits)),
        _constants("int", {f"{_name(f)}Field": at for f, at in shared.RING_HEADER.items()}),
        _constants("int", {f"{_name(f)}At": at for f, (_, at) in shared.RING_RECORD.items()}),
        _constants("uint32_t", _named(*(f"MARKER_{name}" for name in markers))),
        _constants("uint32_t", _named(*(f"NAME_{name}" for name in names))),
        _constants("uint8_t", _named("RAISED", "COLLECTIVE", "WAITS")),
        _constants("uint64_t", _named("RING_RUNNING", "RING_FINISHED", "RING_EXPORTED")),
        _enum("Phase", _named(*_PHASES)),
        _dtype_names(),
    )


def _dtype_names() -> str:
    by_number = {number: name for name, number in shared.DTYPES.items()}
    names = ", ".join(f'"{by_number.get(n, "")}"' for n in range(max(by_number) + 1))
    count = max(by_number) + 1
    return f"constexpr std::array<std::string_view, {count}> kDtypeNames = {{{names}}};"


def _record() -> str:
    return _header(
        "The layout of a record, and of the memory that records are written into.",
        _constants("int", {"kRecordBytes": shared.RECORD_BYTES, "kNumbers": shared.NUMBERS}),
        _constants("int", {f"{_name(f)}At": at for f, (_, at) in shared.RECORD_FIELDS.items()}),
        _constants("uint8_t", _named("INPUT", "OUTPUT")),
        _enum("RowKind : uint8_t", _named("FLOAT", "INT", "UINT")),
        _enum("MemoryCursor", _named("NEXT", "END", "ADDRESS")),
    )


def _dtype_numbers() -> str:
    numbers = {_name(dtype): number for dtype, number in shared.DTYPES.items()}
    return _header("The numbers of dtypes: c10::ScalarType.", _enum("Dtype : int", numbers))


def _capture() -> str:
    wants = ("INPUT_STATS", "OUTPUT_STATS", "INPUT_VALUES", "OUTPUT_VALUES", "OUTSIDE_STATS")
    most = ("MOST_VARIANTS", "MOST_FURTHER", "MOST_NODES")
    limits = {"kMany": shared.MANY_OUTPUTS}
    return _header(
        "What the observer and capture in Python must agree on.",
        _enum("Phase", _named(*_PHASES)),
        _enum("Kind", _named("NEW", "SEVERAL", "VIEW", "WRITE", "NOTHING", "GENERAL")),
        _enum("Want", _named(*wants, "PARAMETERS", "ARGUMENTS")),
        _constants("long", _named(*most, "KEPT_NUMBERS") | limits),
    )


def _device_rows() -> str:
    sizes = ("GROUP_BYTES", "TINY_BYTES", "SMALL_BYTES", "MIDDLE_BYTES", "HELD_BYTES")
    cut = ("PROGRAMS", "COARSE", "GATHERED", "VERY_LARGE", "MOST_IN_RUNS", "VECTOR_BYTES")
    batch = {
        "kEntry": shared.ENTRY_BYTES,
        "kMost": shared.MOST_IN_BATCH,
        "kWidest": shared.MOST_PROGRAMS_IN_BATCH,
    }
    return _header(
        "How tensors on a device are cut, and where their rows go.",
        _enum("DeviceCursor", _named("HEAD", "HEAD_END", "PART", "PART_END", "SLOT", "STREAM")),
        _constants("int64_t", _named("HEAD_BYTES", "PART_BYTES", *cut, *sizes) | batch),
    )


def _header(about: str, *parts: str) -> str:
    body = "\n\n".join(parts)
    return (
        f"// {about}\n// Made by opscope/native/headers.py.\n#pragma once\n\n#include <cstdint>\n\n"
        f"namespace opscope {{\n\n{body}\n\n}}  // namespace opscope\n"
    )


def _constants(kind: str, values: Mapping[str, int]) -> str:
    return "\n".join(f"constexpr {kind} {name} = {value};" for name, value in values.items())


def _enum(name: str, values: Mapping[str, int]) -> str:
    lines = "".join(f"  {name} = {value},\n" for name, value in values.items())
    return f"enum {name} {{\n{lines}}};"


def _named(*names: str) -> dict[str, int]:
    return {_name(name): getattr(shared, name) for name in names}


def _name(text: str) -> str:
    """Return the name in C++: kAwaitingForward for AWAITING_FORWARD."""
    return "k" + "".join(word.capitalize() for word in text.split("_"))
