"""Where a stop by a hit surfaces: the exit code is 3, and what is printed is ours and short."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from helpers.examples import one_in
from helpers.forked import forked_opscope, forked_python
from helpers.program import clean_environment
from helpers.scripts import LOG_OF_ZERO as TRAIN
from helpers.scripts import ORIGIN_OF_LOG_OF_ZERO as ORIGIN
from opscope.watch.ending import TrainingStopped

STOPPED = 3


def run(folder: Path, rest: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The script with this at its end, under opscope."""
    (folder / "train.py").write_text(TRAIN + textwrap.dedent(rest))
    words = ("run", "--run-dir", "out", "--no-page", "train.py")
    return forked_opscope(*words, cwd=folder, stdin=stdin)


# ------------------------------------------------------------------- nobody to say anything to

STREAMS = {
    "none": "sys.stderr = None",
    "closed": "sys.stderr.close()",
    "a closed file descriptor": "os.close(2)",
    "a broken pipe": """
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 2)
        """,
    "raises": """
        class Stream:
            def write(self, text):
                raise RuntimeError("full")
            def flush(self):
                raise RuntimeError("full")
        sys.stderr = Stream()
        """,
    "only writes": """
        class Stream:
            def write(self, text):
                os.write(2, text.encode())
        sys.stderr = Stream()
        """,
    "no stream at all": "sys.stderr = 3",
    "stdout is none": "sys.stdout = None",
    "stdout is closed": "sys.stdout.close()",
    "both are none": "sys.stdout = sys.stderr = None",
}
HEARD = ("only writes", "stdout is none", "stdout is closed")
REPLACED = ("raises", "no stream at all")
"""In the end Python's own stderr takes their place, or the exit code would be 120."""


@pytest.mark.parametrize("stream", one_in(2, STREAMS))
def test_a_hit_ends_training_whoever_listens(stream: str, tmp_path: Path) -> None:
    done = run(tmp_path, textwrap.dedent(STREAMS[stream]) + "\ntrain()")
    assert done.returncode == STOPPED, done.stderr
    assert done.stdout == "step 0\nstep 1\n"
    assert (ORIGIN in done.stderr) == (stream in HEARD)
    assert ("run written to" in done.stderr) == (stream in (*HEARD, *REPLACED))
    assert "Traceback" not in done.stderr
    assert (tmp_path / "out" / "rank_0" / "hits.jsonl").exists()


def test_an_exception_hook_that_fails_does_not_change_the_exit_code(tmp_path: Path) -> None:
    rest = """
        def hook(*error):
            raise RuntimeError("cannot report")
        sys.excepthook = hook
        try:
            train()
        finally:
            raise ValueError("cannot clean up")
        """
    done = run(tmp_path, rest)
    assert done.returncode == STOPPED, done.stderr
    assert "ValueError: cannot clean up" in done.stderr and "cannot report" not in done.stderr


# ---------------------------------------------------------------------- where it surfaces

ENDS = {
    "main thread": "train()",
    "except Exception": """
        try:
            train()
        except Exception:
            print("swallowed")
        print("went on")
        """,
    "exit code of its own": """
        try:
            train()
        finally:
            sys.exit(0)
        """,
    "future": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(1) as pool:
            pool.submit(train).result()
        print("went on")
        """,
    "task": """
        import asyncio
        async def work():
            train()
        async def main():
            await asyncio.create_task(work())
        asyncio.run(main())
        print("went on")
        """,
    "task that nobody awaits": """
        import asyncio
        async def work():
            train()
        async def main():
            kept = asyncio.create_task(work())
            await asyncio.sleep(60)
        asyncio.run(main())
        print("went on")
        """,
    "thread of a loop": """
        import asyncio
        async def main():
            await asyncio.to_thread(train)
        asyncio.run(main())
        print("went on")
        """,
    "optimizer in backward": """
        for parameter in model.parameters():
            own = torch.optim.SGD([parameter], lr=0.1)
            parameter.register_post_accumulate_grad_hook(lambda p, own=own: own.step())
        optimizer.step = lambda: None
        train()
        print("went on")
        """,
    "debugger": """
        import pdb
        pdb.run("train()", globals())
        print("went on")
        """,
}
GOES_ON = {
    "thread": """
        import threading
        thread = threading.Thread(target=train, name="trainer")
        thread.start()
        thread.join()
        print("went on")
        """,
    "thread with a hook": """
        import threading
        threading.excepthook = lambda args: print("told", args.exc_type.__name__)
        thread = threading.Thread(target=train, name="trainer")
        thread.start()
        thread.join()
        print("went on")
        """,
    "future that nobody asks": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(1) as pool:
            pool.submit(train)
        print("went on")
        """,
    "bare except": """
        for _ in range(2):
            try:
                train()
            except:
                pass
        print("went on")
        """,
}


def lines_after_verdict(printed: str) -> list[str]:
    lines = printed.splitlines()
    return lines[lines.index(ORIGIN) + 1 :]


@pytest.mark.parametrize("where", one_in(2, ENDS))
def test_a_hit_ends_the_script(where: str, tmp_path: Path) -> None:
    done = run(tmp_path, ENDS[where], stdin="c\n")
    assert done.returncode == STOPPED, done.stderr
    assert "went on" not in done.stdout and "swallowed" not in done.stdout
    check_what_is_said(done.stderr, in_thread=where in ("future", "thread of a loop"))


@pytest.mark.parametrize("where", GOES_ON)
def test_a_hit_ends_a_thread(where: str, tmp_path: Path) -> None:
    done = run(tmp_path, GOES_ON[where])
    assert done.returncode == STOPPED, done.stderr
    assert done.stdout.endswith("went on\n")
    assert done.stdout.count("step") == 2, "one that swallows it is ended at the next step"
    assert ("told SystemExit" in done.stdout) == (where == "thread with a hook")
    check_what_is_said(done.stderr, in_thread=where != "bare except")


def check_what_is_said(stderr: str, in_thread: bool) -> None:
    """The verdict once, then lines of ours alone: a thread's end, the hits, where the run is."""
    assert stderr.count(ORIGIN) == 1
    after = lines_after_verdict(stderr)
    assert all(line.startswith("opscope: ") for line in after), stderr
    assert ["the hit ends training in thread" in line for line in after] == (
        [True] * in_thread + [False] * 2
    )


# ------------------------------------------------------------------------------- at a prompt

STARTS = "import opscope\nopscope.start(run_dir='out', page=False)\n"
STOPPED_LINE = f"opscope: {TrainingStopped()}"


def typed(folder: Path, *words: str, stdin: str) -> tuple[str, str]:
    """What Python prints if this is typed."""
    done = subprocess.run(
        [sys.executable, "-i", *words],
        cwd=folder,
        input=stdin,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, "that of the prompt"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout, done.stderr


def test_pythons_prompt(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STARTS.replace("\n", ";") + TRAIN + "train()")
    again = "print('alive')\ntrain()\nopscope.start(run_dir='again', page=False)\ntrain()\n"
    out, err = typed(tmp_path, "train.py", stdin=again + "print('alive')\n")
    assert out.count("alive") == 2
    assert err.count(STOPPED_LINE) == 2, err
    assert out.count("step") == 2 + 6, "watching ends with the hit"


def test_pythons_prompt_after_a_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN + "train()")
    words = ("-m", "opscope", "run", "--run-dir", "out", "--no-page", "train.py")
    out, err = typed(tmp_path, *words, stdin="print('alive', model)\n")
    assert "alive Linear" in out
    assert ORIGIN in err and "SystemExit" not in err


def test_ipython(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    (tmp_path / "train.py").write_text(TRAIN)
    cells = (
        *("import threading, opscope", "from train import train"),
        *("session = opscope.start(run_dir='out', page=False)", "train()", "print('ali' + 've')"),
        *("train()", "session = opscope.start(run_dir='again', page=False)"),
        *("thread = threading.Thread(target=train); thread.start(); thread.join()",),
        *("opscope.stop()",),
    )
    options = ("--simple-prompt", "--no-banner", "--no-confirm-exit", "--colors=NoColor")
    words = ("-m", "IPython", *options)
    own = {"IPYTHONDIR": str(tmp_path / "profile")}
    done = forked_python(*words, cwd=tmp_path, stdin="\n".join(cells) + "\n", **own)
    assert done.returncode == 0, done.stderr
    printed = done.stdout + done.stderr
    assert "alive" in done.stdout
    assert printed.count(ORIGIN) == 1 and printed.count(STOPPED_LINE) == 1, printed
    assert printed.count("the hit ends training in thread") == 1
    assert "Traceback" not in printed and "SystemExit:" not in printed and "%tb" not in printed
    assert done.stdout.count("step") == 2 + 6
