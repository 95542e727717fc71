"""Running a script in this very process, as `python script.py` or `python -m module` would."""

from __future__ import annotations

import builtins
import importlib.machinery
import io
import itertools
import os
import runpy
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from opscope.errors import OpscopeError

_OWN = str(Path(__file__).parent) + os.sep
_STARTERS = (runpy.__file__, "<frozen runpy>")


def check_script(script: str) -> None:
    """Raise if there is nothing to run, before anything else is set up."""
    path = Path(script)
    if not path.exists():
        raise OpscopeError(f"can't open file {script!r}: it does not exist")
    if path.is_dir() and not (path / "__main__.py").exists():
        raise OpscopeError(f"can't find '__main__' module in directory {script!r}")


def run_script(script: str, args: list[str]) -> None:
    """Run a file, or a directory or zip file with a `__main__.py`."""
    sys.argv = [script, *args]
    main = _fresh_main()
    if Path(script).is_dir() or _is_zip(script):
        _set_first_path(str(Path(script).absolute()))
        run_main = runpy._run_module_as_main  # type: ignore[attr-defined]
        _with_own_frames_hidden(lambda: run_main("__main__", alter_argv=False))
        return
    _set_first_path(str(Path(script).resolve().parent))
    path = os.path.abspath(script)  # noqa: PTH100 - as Python does, without resolving links
    with io.open_code(path) as file:
        source = file.read()
    main.__file__ = path
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__["__cached__"] = None
    _with_own_frames_hidden(lambda: exec(compile(source, path, "exec"), main.__dict__))


def run_module(module: str, args: list[str]) -> None:
    """Run a module by name."""
    sys.argv = [module, *args]
    _set_first_path(str(Path.cwd()))
    _fresh_main()
    _with_own_frames_hidden(lambda: runpy._run_module_as_main(module))  # type: ignore[attr-defined]


def _fresh_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    if "__mp_main__" in sys.modules:  # multiprocessing, once imported, keeps a second name
        sys.modules["__mp_main__"] = main
    return main


def _set_first_path(directory: str) -> None:
    """Python puts the script's directory first; ours is there in its place."""
    if not sys.flags.safe_path:
        sys.path[0] = directory


def _is_zip(script: str) -> bool:
    import zipfile

    return zipfile.is_zipfile(script)


def _with_own_frames_hidden(run: Callable[[], object]) -> None:
    """Hide our frames from whoever prints the exception, which else leaves as it came."""
    try:
        run()
    except BaseException as error:
        error.__traceback__ = without_own_frames(error.__traceback__)
        hook = sys.excepthook

        def show(
            cls: type[BaseException], value: BaseException, traceback: TracebackType | None
        ) -> None:
            stripped = without_own_frames(traceback)
            hook(cls, value.with_traceback(stripped), stripped)

        sys.excepthook = show
        raise


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of opscope and of the machinery that started the script."""
    frames: list[TracebackType] = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    files = [frame.tb_frame.f_code.co_filename for frame in frames]
    if __file__ in files:
        first = files.index(__file__)
        frames, files = frames[first:], files[first:]
        while files and (files[0].startswith(_OWN) or files[0] in _STARTERS):
            del frames[0], files[0]
    kept = [f for f, file in zip(frames, files, strict=True) if not file.startswith(_OWN)]
    for earlier, later in itertools.zip_longest(kept, kept[1:]):
        earlier.tb_next = later
    return kept[0] if kept else None
