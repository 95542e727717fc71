"""Make `.npy` files of a dump that was written with `file_format` bin.

PATH is a dump, a part of one, or a single `values.safetensors`. The files go beside the packed one,
or with `--output` into the same directories under another one, and are called as a dump with
`file_format` npy calls them. The packed files stay.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opscope.commands.output import add_json_flag, print_json, print_line
from opscope.dump import layout
from opscope.errors import OpscopeError
from opscope.messages import say
from opscope.waiting import Waiting
from opscope.wording import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope convert`."""
    parser.add_argument("path", metavar="PATH", type=Path, help="what to convert")
    parser.add_argument("--output", metavar="DIR", type=Path, help="write under this directory")
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Unpack every packed file and say how many there were."""
    path: Path = args.path
    if args.output is not None and args.output.exists() and not args.output.is_dir():
        raise OpscopeError(f"--output {args.output}: it is not a directory")
    packs = _packs_in(path)
    base = path if path.is_dir() else path.parent
    progress = _Progress(sum(pack.stat().st_size for pack in packs))
    written: list[dict[str, Any]] = []
    for pack in packs:
        target = pack.parent if args.output is None else args.output / pack.parent.relative_to(base)
        made = _unpacked(pack, target, progress)
        if made is not None:
            written.append(made)
            if not args.json:
                print_line(f"{_amount([made])} in {target}")
    if args.json:
        print_json(written)
    elif len(packs) > 1:
        print_line(f"{_amount(written)} of {counted(len(packs), 'packed file')}")
    return 0 if len(written) == len(packs) else OpscopeError.exit_code


def _unpacked(pack: Path, target: Path, progress: _Progress) -> dict[str, Any] | None:
    """Unpack one file, and tell of it; None if that cannot be done: others may be sound."""
    from opscope.dump.format.unpack import unpack

    try:
        with Waiting("converting") as progress.waiting:
            files, size = unpack(pack, target, progress.advance)
    except OpscopeError as error:
        say(str(error))
        return None
    return {"pack": str(pack), "to": str(target), "files": files, "bytes": size}


def _amount(written: Sequence[Mapping[str, Any]]) -> str:
    size = sum(each["bytes"] for each in written)
    return f"{counted(sum(each['files'] for each in written), 'file')} ({size / 1e6:,.1f} MB)"


class _Progress:
    """Bytes that have been written, of those in all packed files."""

    def __init__(self, total: int) -> None:
        self.waiting: Waiting | None = None
        self._done, self._total = 0, total

    def advance(self, size: int) -> None:
        """Count so many bytes more as done."""
        self._done += size
        if self.waiting is not None:
            self.waiting.show(self._done, self._total)


def _packs_in(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.exists():
        raise OpscopeError(f"{path}: there is no such file or directory")
    found = path.rglob(layout.PACK)
    packs = [each for each in found if layout.PREVIOUS not in each.relative_to(path).parts]
    if not packs:
        raise OpscopeError(
            f"{path}: there is no {layout.PACK} in it; only dumps with file_format bin have one"
        )
    return sorted(packs, key=_in_order)


def _in_order(pack: Path) -> list[tuple[int, str]]:
    """A key that sorts packed files by their iterations, 2 before 10."""
    return [(int(part) if part.isdecimal() else -1, part) for part in pack.parts]
