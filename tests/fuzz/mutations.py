"""Damage: what a broken disk, a careless person or a hostile one may do to a directory of files."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

FORGED = "FORGED"
"""Begins a line of what is printed only if a name with a newline was printed as it is."""

_ESCAPES = f"\x1b[31m\x9b2J\x07{FORGED}\n{FORGED}\r{FORGED}\u2028\u202e\x7f"
_DEEP = "@deep@"
_LENGTH = 200_000
_GIBIBYTE = 1 << 30

_NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 7, 65535, 65536, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**63 - 1, 2**63),
    *(-(2**63), 2**64, -(2**70), 10**400, 0.5, 1e308, -1e308, float("nan"), float("inf")),
)
_TEXTS: tuple[Any, ...] = (
    *("", "x", "NaN", "Infinity", "2026-13-99", "../../..", "/dev/zero", "\0", "\ud800", "%s{0}"),
    *(_ESCAPES, "9" * 5000, "a" * _LENGTH),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, [], {}, [[]], [{}], {"a": 1}, [None], [1, "x"], _DEEP),
    *_NUMBERS,
    *_TEXTS,
)
_WORDS = (0, 1, 2, 0x7F, 0xFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)

Bytes = Callable[[random.Random, bytes], bytes]


def mutate(root: Path, seed: int) -> str:
    """Damage one thing below a directory; the same for the same seed. Says what."""
    chance = random.Random(seed)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    folders = sorted(path for path in root.rglob("*") if path.is_dir())
    if folders and chance.random() < 0.06:
        folder = chance.choice(folders)
        change = chance.choice(_ON_FOLDERS)
        done = change(chance, folder)
        return f"{folder.relative_to(root)!s}: {done}"
    # Every kind of file equally often, however many there are of it.
    suffix = chance.choice(sorted({_kind(path) for path in files}))
    path = chance.choice([path for path in files if _kind(path) == suffix])
    if chance.random() < 0.2:
        done = chance.choice(_ON_FILES)(chance, path)
    else:
        done = _rewrite(chance, path)
    return f"{path.relative_to(root)!s}: {done}"


def _kind(path: Path) -> str:
    """Files of one kind have one name, but for the many of a dump."""
    return path.suffix if path.suffix in (".npy", ".rows", ".safetensors", ".ir") else path.name


# ------------------------------------------------------------------ contents


def _rewrite(chance: random.Random, path: Path) -> str:
    """Change what is in a file."""
    changes = [*_ON_BYTES, *_BY_SUFFIX.get(path.suffix, ()), *_BY_SUFFIX.get(path.suffix, ())]
    change = chance.choice(changes)
    try:
        path.write_bytes(change(chance, path.read_bytes()))
    except (ValueError, IndexError):  # there is nothing in it that this could change
        path.write_bytes(b"")
        return "emptied"
    return change.__name__.strip("_").replace("_", " ")


def _flip_bits(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 4, 32))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _truncate(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def _cut_out(chance: random.Random, data: bytes) -> bytes:
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.randrange(1, 200) :]


def _zeros(chance: random.Random, data: bytes) -> bytes:
    start = chance.randrange(len(data))
    size = min(len(data) - start, chance.choice((1, 8, 128, 4096)))
    return data[:start] + bytes(size) + data[start + size :]


def _no_utf8(chance: random.Random, data: bytes) -> bytes:
    start = chance.randrange(len(data) + 1)
    return data[:start] + chance.choice((b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0")) + data[start:]


def _append_noise(chance: random.Random, data: bytes) -> bytes:
    return data + chance.randbytes(chance.choice((1, 127, 5000))) + b"\n"


def _word(chance: random.Random, data: bytes) -> bytes:
    """An integer of four or eight bytes where one may be."""
    size = chance.choice((4, 8))
    start = chance.randrange(max(1, len(data) // 4)) * 4
    word = chance.choice(_WORDS) * (1 if size == 4 else chance.choice((1, 1 << 32)))
    return data[:start] + word.to_bytes(8, "little")[:size] + data[start + size :]


def _digits(chance: random.Random, data: bytes) -> bytes:
    """Another number where text has one."""
    start, end = chance.choice([match.span() for match in re.finditer(rb"\d+", data)])
    number = str(chance.choice([n for n in _NUMBERS if isinstance(n, int)])).encode()
    if chance.random() < 0.5:  # in the room there is, so that what follows stays in its place
        number = number[: end - start].rjust(end - start)
    return data[:start] + number + data[end:]


def _garbage(chance: random.Random, data: bytes) -> bytes:
    return chance.randbytes(len(data))


_ON_BYTES: tuple[Bytes, ...] = (
    *(_flip_bits, _truncate, _cut_out, _zeros, _no_utf8, _append_noise, _digits, _garbage),
)


def _line(chance: random.Random, data: bytes, change: Callable[[list[bytes], int], None]) -> bytes:
    lines = data.splitlines(keepends=True)
    change(lines, chance.randrange(len(lines)))
    return b"".join(lines)


def _delete_line(chance: random.Random, data: bytes) -> bytes:
    return _line(chance, data, lambda lines, at: lines.pop(at) and None)


def _repeat_line(chance: random.Random, data: bytes) -> bytes:
    return _line(chance, data, lambda lines, at: lines.insert(at, lines[at]))


def _swap_lines(chance: random.Random, data: bytes) -> bytes:
    def swap(lines: list[bytes], at: int) -> None:
        other = chance.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]

    return _line(chance, data, swap)


def _strange_line(chance: random.Random, data: bytes) -> bytes:
    lines = (b"\n", b"null\n", b"[]\n", b"{}\n", b'{"id": 1}\n', b"7\n", b"x" * _LENGTH + b"\n")
    line = chance.choice(lines)
    return _line(chance, data, lambda lines, at: lines.insert(at, line))


def _json_value(chance: random.Random, data: bytes) -> bytes:
    """Another value somewhere in an object."""
    value = json.loads(data)
    for _ in range(chance.choice((1, 1, 1, 5))):
        value = _changed(chance, value)
    text = json.dumps(value, ensure_ascii=chance.random() < 0.5)
    depth = chance.choice((60, 600, 5000, _LENGTH))
    text = text.replace(f'"{_DEEP}"', '[{"a": ' * depth + "[]" + "}]" * depth)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _json_line(chance: random.Random, data: bytes) -> bytes:
    """Another value somewhere in the objects of some lines."""
    lines = data.splitlines(keepends=True)
    for at in chance.sample(range(len(lines)), min(len(lines), chance.choice((1, 1, 3)))):
        lines[at] = _json_value(chance, lines[at])
    return b"".join(lines)


def _changed(chance: random.Random, value: Any) -> Any:
    """A JSON value with another one at some depth, or without one of its parts."""
    if isinstance(value, dict) and value and chance.random() < 0.95:
        key = chance.choice(list(value))
        if chance.random() < 0.1:
            return {name: part for name, part in value.items() if name != key}
        if chance.random() < 0.05:
            return {chance.choice(_TEXTS) if name == key else name: p for name, p in value.items()}
        return value | {key: _changed(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], _changed(chance, value[at]), *value[at + 1 :]]
    return chance.choice(_VALUES)


def _csv_field(chance: random.Random, data: bytes) -> bytes:
    lines = list(csv.reader(io.StringIO(data.decode(), newline="")))
    line = chance.choice(lines)
    value = str(chance.choice(_VALUES)).replace("\ud800", "?")
    line[chance.randrange(len(line))] = value
    out = io.StringIO()
    csv.writer(out).writerows(lines)
    return out.getvalue().encode()


def _csv_quote(chance: random.Random, data: bytes) -> bytes:
    """A quote that does not end."""
    start = chance.randrange(len(data))
    return data[:start] + b'"' + data[start:]


def _safetensors_head(chance: random.Random, data: bytes) -> bytes:
    """Another value in the head, whose size is still right."""
    size = int.from_bytes(data[:8], "little")
    head = _json_value(chance, data[8 : 8 + size])
    return len(head).to_bytes(8, "little") + head + data[8 + size :]


def _npy_head(chance: random.Random, data: bytes) -> bytes:
    """Another header, whose size is still right."""
    end = 10 + int.from_bytes(data[8:10], "little")
    head = chance.choice(
        (
            b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, -4), }",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': 4, }",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': ('a',), }",
            b"{'descr': '<f4', 'fortran_order': 1e3, 'shape': (1,) * 9, }",
            b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
            b"{'descr': 'S0', 'fortran_order': False, 'shape': (10000000000,), }",
            b"{'descr': '<M8', 'fortran_order': False, 'shape': (1,), }",
            b"{'descr': '<f4', 'shape': " + b"(" * 3000 + b")" * 3000 + b"}",
            b"[" * 60000,
            b"-" * 60000 + b"1",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"1," * 70 + b"), }",
        )
    )
    return data[:8] + len(head).to_bytes(2, "little") + head + data[end:]


_LINES: tuple[Bytes, ...] = (_delete_line, _repeat_line, _swap_lines, _strange_line)
_BY_SUFFIX: dict[str, tuple[Bytes, ...]] = {
    ".jsonl": (*_LINES, *[_json_line] * 12),
    ".json": (*[_json_value] * 10,),
    ".csv": (*_LINES, _csv_quote, *[_csv_field] * 8),
    ".rows": (*[_word] * 6,),
    ".npy": (_word, *[_npy_head] * 4),
    ".safetensors": (_word, *[_safetensors_head] * 6),
}


# ------------------------------------------------------------------ files and folders


def _file_as_folder(chance: random.Random, path: Path) -> str:
    path.unlink()
    path.mkdir()
    return "is a directory"


def _file_as_fifo(chance: random.Random, path: Path) -> str:
    path.unlink()
    os.mkfifo(path)
    return "is a FIFO"


def _file_as_socket(chance: random.Random, path: Path) -> str:
    path.unlink()
    os.mknod(path, stat.S_IFSOCK | 0o600)
    return "is a socket"


def _file_as_link(chance: random.Random, path: Path) -> str:
    target = chance.choice(("/dev/zero", "/dev/null", path.name, "nowhere", ".moved", "/"))
    path.rename(path.with_name(".moved"))
    path.symlink_to(target)
    return f"is a link to {target}"


def _missing(chance: random.Random, path: Path) -> str:
    path.unlink()
    return "is missing"


def _empty(chance: random.Random, path: Path) -> str:
    path.write_bytes(b"")
    return "is empty"


def _without_permission(chance: random.Random, path: Path) -> str:
    path.chmod(0)
    return "must not be read"


def _huge(chance: random.Random, path: Path) -> str:
    os.truncate(path, 64 * _GIBIBYTE)
    return "has 64 GiB of zeros at its end"


def _renamed(chance: random.Random, path: Path) -> str:
    parts = re.split(r"([._])", path.name)
    at = chance.randrange(len(parts))
    new = str(chance.choice((*_NUMBERS, "\u0663", "\u00b2", _ESCAPES, "", "x" * 40, "\udcff")))
    parts[at] = new.replace("\0", "")
    name = "".join(parts).replace("/", "")[:80] or "x"
    path.rename(path.with_name(name))
    return f"is called {name!a}"


def _folder_as_file(chance: random.Random, path: Path) -> str:
    shutil.rmtree(path)
    path.write_bytes(b"x")
    return "is a file"


def _folder_as_link(chance: random.Random, path: Path) -> str:
    shutil.rmtree(path)
    target = chance.choice((path.name, "nowhere", "/dev", ".."))
    path.symlink_to(target)
    return f"is a link to {target}"


def _no_folder(chance: random.Random, path: Path) -> str:
    shutil.rmtree(path)
    return "is missing"


def _folder_without_permission(chance: random.Random, path: Path) -> str:
    path.chmod(0)
    return "must not be read"


_ON_FILES = (
    *(_file_as_folder, _file_as_fifo, _file_as_socket, _file_as_link, _file_as_link, _missing),
    *(_empty, _without_permission, _huge, _renamed, _renamed),
)
_ON_FOLDERS = (
    *(_folder_as_file, _folder_as_link, _no_folder, _folder_without_permission, _renamed),
)
