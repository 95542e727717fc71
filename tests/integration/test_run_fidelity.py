"""`opscope run script.py` against `python script.py`: what the script and its caller can see."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from helpers.examples import one_in
from helpers.program import clean_environment

PROGRAM = str(Path(sys.executable).with_name("opscope"))
MODULE = (sys.executable, "-m", "opscope")
OFF = ("--no-record", "--no-stats")

FACTS = """
import builtins, gc, json, os, pickle, signal, sys, threading

class Own:
    pass

main = sys.modules["__main__"]
facts = {
    "name": __name__, "file": __file__, "package": __package__, "doc": __doc__,
    "spec": getattr(__spec__, "name", None), "loader": type(__loader__).__name__,
    "cached": globals().get("__cached__", "none"),
    "globals": sorted(globals().keys() - {"__annotations__"}),
    "builtins": __builtins__ is builtins, "is main": main.__dict__ is globals(),
    "argv": sys.argv, "path": sys.path, "cwd": os.getcwd(), "stdin": sys.stdin.read(),
    "environment": sorted(k for k in os.environ if not k.startswith("OPSCOPE_")),
    "signals": [str(signal.getsignal(s)) for s in sorted(signal.valid_signals())],
    "threads": threading.active_count(), "limit": sys.getrecursionlimit(),
    "gc": gc.get_threshold(), "hook": sys.excepthook is sys.__excepthook__,
    "trace": [sys.gettrace(), sys.getprofile()],
    "pickled": pickle.dumps(Own).hex(), "unpickled": pickle.loads(pickle.dumps(Own)) is Own,
}
json.dump(facts, sys.stdout, indent=1)
sys.stdout.flush()
sys.stdout.buffer.write(bytes(range(256)) + b"no newline at the end")
"""


def run(*words: str | Path, cwd: Path, stdin: bytes = b"", **environ: str):
    return subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        input=stdin,
        env=clean_environment(**environ),
        capture_output=True,
        timeout=30,
        check=False,
    )


def unsaid(stderr: bytes) -> list[bytes]:
    """stderr without what opscope says and without addresses."""
    lines = re.sub(rb"0x[0-9a-f]+", b"0x", stderr).splitlines()
    return [line for line in lines if not line.startswith(b"opscope: ")]


def assert_same(cwd: Path, *words: str | Path, launcher=MODULE, options=OFF, stdin=b"") -> None:
    """The same command line, plain and under opscope: same output, same errors, same code."""
    plain = run(sys.executable, *words, cwd=cwd, stdin=stdin)
    command = (launcher,) if isinstance(launcher, str) else launcher
    watched = run(*command, "run", *options, *words, cwd=cwd, stdin=stdin)
    assert watched.stdout.decode("latin1") == plain.stdout.decode("latin1")
    assert unsaid(watched.stderr) == unsaid(plain.stderr)
    assert watched.returncode == plain.returncode


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The facts script as a file, a link, a package, a directory and a zip file."""
    for name in ("facts.py", "pkg/mod.py", "pkg/__main__.py", "app/__main__.py", "sub/deep.py"):
        write(tmp_path, name, FACTS)
    write(tmp_path, "pkg/__init__.py", "")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "link.py").symlink_to(tmp_path / "sub" / "deep.py")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", FACTS)
    return tmp_path


TARGETS = {
    "script": ("facts.py", "a", "b c"),
    "script elsewhere": ("sub/deep.py",),
    "link": ("links/link.py",),
    "module": ("-m", "pkg.mod", "a", "-m", "b"),
    "package": ("-m", "pkg", "--", "x"),
    "directory": ("app", "--flag"),
    "zip file": ("app.zip",),
    "options of its own": ("facts.py", "--dump", "x", "--steps=3", "-m", "--no-record", "--", "-x"),
}


@pytest.mark.parametrize("target", TARGETS)
def test_the_script_sees_what_it_would_see(project: Path, target) -> None:
    assert_same(project, *TARGETS[target], stdin=b"line 1\nline 2")


@pytest.mark.parametrize(
    ("launcher", "target"), [(PROGRAM, "script"), (MODULE, "module")], ids=["program", "module"]
)
def test_the_script_sees_the_same_while_it_is_watched(project: Path, launcher, target) -> None:
    options = ("--run-dir", "run")
    assert_same(project, *TARGETS[target], launcher=launcher, options=options, stdin=b"in")


def test_an_absolute_path_and_another_folder(project: Path) -> None:
    (project / "elsewhere").mkdir()
    assert_same(project / "elsewhere", project / "facts.py", "x")


def test_the_separator_ends_our_options(project: Path) -> None:
    plain = run(sys.executable, "facts.py", "--dump", "x", cwd=project)
    watched = run(*MODULE, "run", *OFF, "--", "facts.py", "--dump", "x", cwd=project)
    assert watched.stdout == plain.stdout


def test_separator_before_a_module(project: Path) -> None:
    plain = run(sys.executable, "-m", "pkg.mod", "a", cwd=project)
    watched = run(*MODULE, "run", *OFF, "--", "-m", "pkg.mod", "a", cwd=project)
    assert watched.stdout == plain.stdout


ENDINGS = {
    "0": "print('done')",
    "exit 3": "import sys; sys.exit(3)",
    "exit text": "import sys; sys.exit('what went wrong')",
    "exit none": "raise SystemExit",
    "exit in a function": "def f():\n    raise SystemExit(7)\nf()",
    "os._exit": "import os, sys; print('x', flush=True); os._exit(4)",
    "exception": "def inner(x):\n    return 1 / x\n\ndef outer():\n    inner(0)\n\nouter()",
    "chain": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e",
    "group": "raise ExceptionGroup('many', [ValueError(1), TypeError(2)])",
    "in a library": "import json\njson.loads('{')",
    "syntax error": "print('never')\nx = = 1\n",
    "bad indentation": "if True:\nprint(1)\n",
    "recursion": "def f():\n    f()\ntry:\n    f()\nexcept RecursionError as e:\n    print('deep')",
    "hook": "import sys\nsys.excepthook = lambda *a: print('mine:', a[0].__name__, a[1])\n1 / 0",
    "atexit": "import atexit; atexit.register(print, 'bye'); raise ValueError('x')",
    "thread": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.1), print('thread done'))).start()",
    "thread exception": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T')\n"
    "t.start(); t.join(); print('on')",
    "print_exc": "import traceback\ntry:\n    1 / 0\nexcept Exception:\n    traceback.print_exc()",
    "closed stdout": "import sys; print('x'); sys.stdout.close()",
    "del frames": "import sys\ntry:\n    1 / 0\nexcept Exception:\n    t = sys.exc_info()[2]\n"
    "print(t.tb_frame.f_code.co_filename, t.tb_lineno)",
    "warning": "import warnings; warnings.warn('careful')",
    "unraisable": "class A:\n    def __del__(self):\n        1 / 0\nA()\nprint('on')",
    "keyboard": "raise KeyboardInterrupt",
    "annotations": "print(__annotations__)",
    "main guard": "import __main__, sys\nassert __main__.__dict__ is globals()\nprint(__main__)",
}


@pytest.mark.parametrize("ending", one_in(3, ENDINGS))
def test_endings(tmp_path: Path, ending) -> None:
    write(tmp_path, "script.py", ENDINGS[ending])
    assert_same(tmp_path, "script.py")


@pytest.mark.parametrize("ending", ["exception", "thread exception"])
def test_endings_while_watched(tmp_path: Path, ending) -> None:
    write(tmp_path, "script.py", ENDINGS[ending])
    assert_same(tmp_path, "script.py", options=("--run-dir", "run"))


def test_endings_of_a_module(tmp_path: Path) -> None:
    write(tmp_path, "pkg/__init__.py", "")
    write(tmp_path, "pkg/mod.py", ENDINGS["exception"])
    plain = run(sys.executable, "-m", "pkg.mod", cwd=tmp_path)
    watched = run(*MODULE, "run", *OFF, "-m", "pkg.mod", cwd=tmp_path)
    assert watched.returncode == plain.returncode == 1
    # Plain Python shows its own runpy frames first; the script's own are the same.
    assert unsaid(watched.stderr)[-7:] == plain.stderr.splitlines()[-7:]
    assert b"opscope/" not in watched.stderr


SLEEPER = "import time\nprint('ready', flush=True)\ntime.sleep(30)\n"
CLEANER = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *a: sys.exit(9))
try:
    print('ready', flush=True)
    time.sleep(30)
finally:
    print('cleaned up', flush=True)
"""
CATCHER = """
import time
try:
    print('ready', flush=True)
    time.sleep(30)
except KeyboardInterrupt:
    print('caught')
"""


def interrupted(words: tuple[str, ...], cwd: Path, number: int) -> tuple[int, bytes, list[bytes]]:
    """Starts a process, signals it once it is ready, and says how it ended."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=cwd, env=clean_environment(), **pipes) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.2)  # The next statement is where it will be interrupted.
        process.send_signal(number)
        output, errors = process.communicate(timeout=30)
    return process.returncode, output, unsaid(errors)


@pytest.mark.parametrize("case", ["interrupt", "terminate", "cleanup", "catch"])
def test_signals(tmp_path: Path, case) -> None:
    assert_ends_the_same(tmp_path, case, OFF)


@pytest.mark.parametrize("case", ["interrupt", "cleanup"])
def test_signals_while_watched(tmp_path: Path, case) -> None:
    assert_ends_the_same(tmp_path, case, ("--run-dir", "run"))


def assert_ends_the_same(tmp_path: Path, case: str, options: tuple[str, ...]) -> None:
    text = {"cleanup": CLEANER, "catch": CATCHER}.get(case, SLEEPER)
    number = signal.SIGINT if case in ("interrupt", "catch") else signal.SIGTERM
    write(tmp_path, "script.py", text)
    plain = interrupted((sys.executable, "script.py"), tmp_path, number)
    watched = interrupted((*MODULE, "run", *options, "script.py"), tmp_path, number)
    assert watched == plain
    assert plain[0] == {"interrupt": -2, "terminate": -15, "cleanup": 9, "catch": 0}[case]


PICKLING = """
import multiprocessing, pickle, sys

class Point:
    def __init__(self, x):
        self.x = x

def double(point):
    return Point(2 * point.x)

if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(Point(3))).x == 3
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print([p.x for p in pool.map(double, [Point(1), Point(2)])], type(Point(1)))
"""


def test_processes_of_the_script_know_its_classes(tmp_path: Path) -> None:
    write(tmp_path, "script.py", PICKLING)
    assert_same(tmp_path, "script.py", "spawn", options=("--run-dir", "run"))


def test_forks_of_the_script_know_its_classes(tmp_path: Path) -> None:
    write(tmp_path, "script.py", PICKLING)
    assert_same(tmp_path, "script.py", "fork")


def test_processes_of_a_module_know_its_classes(tmp_path: Path) -> None:
    write(tmp_path, "pkg/__init__.py", "")
    write(tmp_path, "pkg/mod.py", PICKLING)
    assert_same(tmp_path, "-m", "pkg.mod", "spawn")


def test_a_fork_of_the_script_ends_by_itself(tmp_path: Path) -> None:
    write(
        tmp_path,
        "script.py",
        "import os, sys, torch\n"
        "torch.ones(2) + 1\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    torch.ones(2).exp()\n"
        "    sys.exit(5)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n",
    )
    done = run(*MODULE, "run", "--run-dir", "run", "script.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"5\n"), done.stderr
    assert done.stderr.count(b"run written to") == 1


def test_the_debugger_reads_its_commands_from_stdin(tmp_path: Path) -> None:
    write(tmp_path, "script.py", "x = 20\nbreakpoint()\ny = x + 1\nprint('y is', y)\n")
    stdin = b"p x * 2\nn\n!x = 100\nl\nc\n"
    assert_same(tmp_path, "script.py", stdin=stdin, options=("--run-dir", "run"))


def test_post_mortem_debugging_starts_at_the_script(tmp_path: Path) -> None:
    text = "import pdb, sys\ntry:\n    1 / 0\nexcept Exception:\n    pdb.post_mortem()\n"
    write(tmp_path, "script.py", text)
    assert_same(tmp_path, "script.py", stdin=b"p 1 + 1\nq\n")


def test_missing_script_is_named(tmp_path: Path) -> None:
    plain = run(sys.executable, "nosuch.py", cwd=tmp_path)
    watched = run(*MODULE, "run", "nosuch.py", cwd=tmp_path)
    assert watched.returncode == plain.returncode == 2
    assert b"can't open file" in watched.stderr
    assert b"nosuch.py" in watched.stderr
    assert not (tmp_path / "opscope-runs").exists()


def test_missing_module_is_named(tmp_path: Path) -> None:
    plain = run(sys.executable, "-m", "no.such", cwd=tmp_path)
    watched = run(*MODULE, "run", *OFF, "-m", "no.such", cwd=tmp_path)
    assert watched.returncode == plain.returncode == 1
    assert b"No module named 'no'" in watched.stderr
    assert b"Traceback" not in watched.stderr


@pytest.mark.parametrize("words", [(), ("-m",), ("--dump",), ("--nonsense", "x.py")])
def test_nothing_to_run_is_a_usage_error(tmp_path: Path, words) -> None:
    done = run(*MODULE, "run", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr
    assert b"Traceback" not in done.stderr


UNTOUCHED = """
import multiprocessing.process, sys, threading
print(sorted(n for n in sys.modules if n.split(".")[0] in ("torch", "numpy")))
print([n for n in sys.modules if n.startswith("opscope.capture")])
print(threading.Thread.run.__module__, multiprocessing.process.BaseProcess.start.__module__)
"""


@pytest.mark.parametrize("how", ["flags", "variable"])
def test_nothing_switched_on_touches_nothing(tmp_path: Path, how) -> None:
    write(tmp_path, "script.py", UNTOUCHED)
    options = OFF if how == "flags" else ("--run-dir", "run")
    environ = {} if how == "flags" else {"OPSCOPE_DISABLE": "1"}
    done = run(*MODULE, "run", *options, "script.py", cwd=tmp_path, **environ)
    assert done.stdout.decode().splitlines() == ["[]", "[]", "threading multiprocessing.process"]
    assert [file.name for file in tmp_path.iterdir()] == ["script.py"]


def test_disabling_beats_a_broken_config(tmp_path: Path) -> None:
    write(tmp_path, "script.py", "print('ran')")
    write(tmp_path, "bad.json", "{")
    words = ("run", "--dump", "bad.json", "script.py")
    assert run(*MODULE, *words, cwd=tmp_path).returncode == 2
    assert run(*MODULE, *words, cwd=tmp_path, OPSCOPE_DISABLE="1").stdout == b"ran\n"


def test_what_a_script_sets_before_it_imports_torch_counts(tmp_path: Path) -> None:
    text = "import os\nos.environ['OMP_NUM_THREADS'] = '2'\nimport torch\n"
    write(tmp_path, "script.py", text + "print(torch.get_num_threads())\n")
    done = run(*MODULE, "run", "--run-dir", "run", "script.py", cwd=tmp_path)
    assert done.stdout == b"2\n"


def test_a_broken_pipe_is_the_scripts_own(tmp_path: Path) -> None:
    text = "for n in range(100000):\n    print(n)\n"
    write(tmp_path, "script.py", text)
    shell = shutil.which("bash")
    ends = []
    for words in (("script.py",), ("-m", "opscope", "run", *OFF, "script.py")):
        line = f"{sys.executable} {' '.join(words)} | head -1; exit ${{PIPESTATUS[0]}}"
        done = run(shell, "-c", line, cwd=tmp_path)
        ends.append((done.returncode, done.stdout, unsaid(done.stderr)))
    assert ends[0] == ends[1]
