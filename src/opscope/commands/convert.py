"""Make `.npy` files of a dump that was written with `file_format` bin.

PATH is a dump, a part of one, or a single `values.safetensors`. The files go beside the packed one,
or with `--output` into the same directories under another one, and are called as a dump with
`file_format` npy calls them. The packed files stay.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from opscope.commands.output import add_json_flag, print_json, print_line
from opscope.dump import layout
from opscope.errors import OpscopeError
from opscope.messages import say
from opscope.waiting import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope convert`."""
    parser.add_argument("path", metavar="PATH", type=Path)
    parser.add_argument("--output", metavar="DIR", type=Path, help="write under this directory")
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Unpack every packed file and say how many there were."""
    from opscope.dump.format.unpack import unpack

    path: Path = args.path
    packs = _packs_in(path)
    base = path if path.is_dir() else path.parent
    written = []
    code = 0
    for number, pack in enumerate(packs):
        show(number, len(packs))
        target = pack.parent if args.output is None else args.output / pack.parent.relative_to(base)
        try:
            files, size = unpack(pack, target)
        except OpscopeError as error:  # the others may be sound
            say(str(error))
            code = error.exit_code
            continue
        written.append({"pack": str(pack), "to": str(target), "files": files, "bytes": size})
        if not args.json:
            print_line(f"{files:,} files ({size / 1e6:,.1f} MB) in {target}")
    if args.json:
        print_json(written)
    return code


def _packs_in(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.exists():
        raise OpscopeError(f"{path}: there is no such file or directory")
    packs = sorted(each for each in path.rglob(layout.PACK) if layout.PREVIOUS not in each.parts)
    if not packs:
        raise OpscopeError(
            f"{path}: there is no {layout.PACK} in it; only dumps with file_format bin have one"
        )
    return packs
