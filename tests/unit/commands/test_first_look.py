"""What a newcomer types first: names, overviews, and words with mistakes in them."""

from __future__ import annotations

import importlib
import io
import json
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from made_run import SCRIPT, write_run

import opscope
from opscope import waiting
from opscope.closing_lines import say_next_of_run
from opscope.commands import VERBS, main
from opscope.commands.plot import plot
from opscope.read.reader import open_reader
from opscope.views.rank_view import RankView


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one run."""
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    write_run(Path("opscope-runs/net-1"), 0, steps=12)
    return tmp_path


def test_the_tree(capsys: Any) -> None:
    assert main(["nodes", "last"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    at = lines.index("Default")
    assert lines[at + 1 : at + 3] == ["  network-Net", "    fc-Linear"]
    assert lines[at + 3].split()[0] == "addmm-op0"
    assert any(line.startswith("  mse_loss-op0  train.py:1  ") for line in lines)
    assert not any("Gradients" in line for line in lines)
    assert "--phase lists others: 1 of backward" in printed.err


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["mse_loss"], {"Default/mse_loss-op0"}),
        (["train.py:1", "--phase", "forward"], None),
        (["foreach"], None),
        (["LINEAR", "--phase", "backward"], {"Gradients/Default/network-Net/fc-Linear/addmm-op0"}),
    ],
)
def test_searching(words: list[str], names: set[str] | None, capsys: Any) -> None:
    assert main(["nodes", "last", *words, "--json"]) == 0
    found = {node["name"] for node in json.loads(capsys.readouterr().out)["nodes"]}
    assert found == names if names is not None else found
    assert main(["nodes", "last", *words]) == 0
    assert all(name in capsys.readouterr().out for name in names or ())


def test_no_such_node_says_how_to_list(capsys: Any) -> None:
    assert main(["show", "last", "qqqq"]) == 2
    said = capsys.readouterr().err
    assert said == "opscope: no node matches qqqq; list them with: opscope nodes last\n"


def test_nothing_found_says_how_to_list(capsys: Any) -> None:
    assert main(["nodes", "last", "nope"]) == 2
    said = capsys.readouterr().err
    assert said == ("opscope: no operator matches nope; list them with: opscope nodes last\n")


def test_a_run_at_a_glance(capsys: Any) -> None:
    assert main(["show", "last"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("net-1: finished\n")
    for part in ("\nloss\n", "step 0 … 11", "network-Net", "fc-Linear", "time per step"):
        assert part in printed
    assert main(["show", "last", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["curves"]["steps"] == list(range(12))
    assert [s["scope"] for s in found["scopes"]][:2] == ["Default", "Default/network-Net"]


def test_a_part_of_a_name_shows_forward_and_lists_the_others(capsys: Any) -> None:
    assert main(["show", "last", "fc"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Default/network-Net/fc-Linear/addmm-op0  ")
    assert "1 other operator matches fc:" in printed
    assert "Gradients/Default/network-Net/fc-Linear/addmm-op0" in printed.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["runs", "--jsno"], ['opscope runs has no option --jsno (did you mean "--json"?)']),
        (["nods", "last"], ['nods is no verb (did you mean "nodes"?); opscope --help says more']),
        (
            ["run", "--stesp", "3", "--watsh=none", "train.py"],
            [
                'opscope run has no option --stesp (did you mean "--steps"?)',
                'opscope run has no option --watsh (did you mean "--watch"?)',
            ],
        ),
        (["run", "--step", "3", "train.py"], ["opscope run has no option --step "]),
        (["run", "--every", "0", "nowhere.py"], ["nowhere.py", "--every"]),
        (["hits", "last", "more"], ["opscope hits does not know what to do with more"]),
        (["run", "--stesp", "3", "nowhere.py"], ["--stesp", "nowhere.py"]),
        (["show"], ["opscope show needs RUN; opscope show --help says more"]),
        (["ctl", "last"], ["opscope ctl needs VERB; opscope ctl --help says more"]),
        (["--stesp", "3"], ["opscope has no option --stesp: options stand after a verb"]),
        (["show", "last", "--step", "3"], ["--step is about an operator: name one"]),
        (
            ["show", "last", "fc", "--last", "-3"],
            ["--last: -3: must be a whole number of at least 0"],
        ),
        (["hits", "last", "--step", "x"], ["--step: x: must be a whole number of at least 0"]),
        (["hits", "last", "--rank", "x"], ["--rank = x: must be a whole number"]),
        (["run", "--server", "here:x", "train.py"], ["the port must be a number from 1 to 65535"]),
        (["runs", "train.py"], ["train.py: is not a directory"]),
        (["runs", "nowhere"], ["nowhere: there is no such directory"]),
        (["query", "last", "selct 1"], ["syntax error", "LINE 1: selct 1", "^^^^^"]),
    ],
)
def test_mistakes_are_said_at_once_with_a_hint(
    words: list[str], said: list[str], capsys: Any
) -> None:
    assert main(words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(said)
    for line, part in zip(lines, said, strict=True):
        assert line.startswith("opscope: ") and part in line


def test_a_curve_has_its_ends_and_marks_what_is_not_finite() -> None:
    values = [float(n) for n in range(100)] + [float("inf")]
    lines = plot(list(range(101)), values, 50, 4)
    assert lines[0].startswith("97 ") and lines[3].startswith(" 1 ")  # the last of each stretch
    assert lines[0].endswith("!") and lines[-1].endswith("step 0 … 100")
    assert max(map(len, lines)) <= 50 + 3
    assert plot([], [], 50) == []
    assert plot([0], [None], 50)[-1].endswith("step 0 … 0")


def test_a_notebook_shows_a_run_as_a_table() -> None:
    run = opscope.open("last")
    hit = {"step": 1, "rank": 0, "label": "TO", "name": "<b>x</b>", "message": "m", "node": 0}
    hit |= {"condition": "TO"}
    Path("opscope-runs/net-1/rank_0/hits.jsonl").write_text(json.dumps(hit) + "\n")
    run.refresh()
    shown = run._repr_html_()  # type: ignore[attr-defined]
    assert "<td>finished</td>" in shown and "<td>TO</td>" in shown
    assert "&lt;b&gt;x&lt;/b&gt;" in shown and "<b>" not in shown
    hits = run.hits()
    assert repr(hits) == "[<hit in step 1, rank 0: TO <b>x</b>: m>]"
    assert "<td>TO</td>" in hits._repr_html_() and "<b>" not in hits._repr_html_()


def test_a_notebook_shows_a_check_as_a_table() -> None:
    found = opscope.open("last").check("TL max_gt=1 op_type=mse_loss", steps="3")
    assert repr(found) == "<1 hit in 1 check>"
    (hit,) = found.hits
    assert repr(hit).startswith("<hit in step 3, rank 0: TL max_gt=1 Default/mse_loss-op0:0 ")
    shown = found._repr_html_()
    assert shown.startswith("<p>1 hit in 1 check</p><table>") and "<td>TL max_gt=1</td>" in shown
    assert repr(opscope.open("last").check("TO")).startswith("<no hits in ")


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_the_terminal(verb: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


def test_what_came_after_the_last_step_is_no_step(capsys: Any) -> None:
    """A training that ends well reads its loss once more: that has no numbers of the model."""
    write_run(Path("opscope-runs/net-2"), 0, steps=3)
    steps = Path("opscope-runs/net-2/rank_0/steps.jsonl")
    *_, last = lines = steps.read_text().splitlines()
    record = json.loads(last)
    assert record["complete"]
    record["complete"] = False
    steps.write_text("\n".join([*lines[:-1], json.dumps(record)]) + "\n")
    assert RankView(open_reader("net-2"), 0).last_step == record["step"] - 1
    assert RankView(open_reader("net-1"), 0).last_step == 11


class Screen(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


def test_a_question_that_takes_long_says_so_until_it_is_answered() -> None:
    slow = "select sum(hash(i)) > 0 as some from range(150000000) numbers(i)"
    with redirect_stderr(Screen()) as said, redirect_stdout(io.StringIO()) as answer:
        assert main(["query", "last", slow]) == 0
    assert "\r\x1b[Kreading, " in said.getvalue()
    assert said.getvalue().endswith("\r\x1b[K")
    assert answer.getvalue().split() == ["some", "True"]


def test_a_name_may_stand_behind_an_option(capsys: Any) -> None:
    assert main(["show", "last", "--rank", "0", "fc"]) == 0
    assert capsys.readouterr().out.startswith("Default/network-Net/fc-Linear/addmm-op0  ")


@pytest.mark.parametrize("words", [[], ["help"]])
def test_who_asks_nothing_gets_the_verbs(words: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert "    doctor " in capsys.readouterr().out


@pytest.mark.parametrize("words", [["show", "last"], ["nodes", "last"], ["hits", "last"]])
def test_a_terminal_that_knows_ascii_only(words: list[str], monkeypatch: Any) -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(words) == 0
    assert b"\\u" not in written.getvalue()


def test_a_sign_is_given_before_a_verb_is_loaded(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    load, seen = importlib.import_module, []

    def loading(name: str) -> Any:
        seen.append((name, [each._what for each in waiting._begun]))
        return load(name)

    monkeypatch.setattr(importlib, "import_module", loading)
    assert main(["runs"]) == 0
    assert seen == [("opscope.commands.runs", ["reading"])]
    assert waiting._begun == []


def test_the_list_of_verbs_needs_none_of_them() -> None:
    asked = "import sys; from opscope.commands import main; main(['nods']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert not {"numpy", "opscope.session", "opscope.commands.run"} & set(done.stdout.split())


def test_a_command_that_is_named_works_as_it_stands(capsys: Any) -> None:
    """Also where the path of the run has blanks in it."""
    Path("opscope-runs/net-1").rename("opscope-runs/my net")
    for words in (
        ["show", "opscope-runs/my net", "nope"],
        ["nodes", "opscope-runs/my net", "nope"],
    ):
        assert main(words) == 2
        hint = capsys.readouterr().err.partition("list them with: opscope ")[2]
        assert main(shlex.split(hint)) == 0
        assert "fc-Linear" in capsys.readouterr().out
    say_next_of_run(Path("opscope-runs/my net"), is_whole=True, has_hits=False)
    hint = capsys.readouterr().err.partition("next: opscope ")[2]
    assert main(shlex.split(hint)) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nodes", "last", "--phase", "forwrad"], '(did you mean "forward"?); opscope nodes'),
        (["nodes", "last", "--phase", "x"], '--phase = x: must be "setup", "data", "forward", '),
        (["--verison"], 'opscope has no option --verison (did you mean "--version"?)'),
        (["show", "last", "netwrok"], "  Default/network-Net/fc-Linear/addmm-op0\n"),
    ],
)
def test_more_mistakes(words: list[str], said: str, capsys: Any) -> None:
    assert main(words) == 2
    printed = capsys.readouterr().err
    assert said in printed and "argument" not in printed


def test_help_of_a_verb(capsys: Any) -> None:
    for words in (["help", "show"], ["show", "--help"]):
        with pytest.raises(SystemExit):
            main(words)
        assert capsys.readouterr().out.startswith("usage: opscope show ")


def test_where_there_is_no_run_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for words, code in ((["runs"], 0), (["show", "last"], 2), (["hits", "x"], 2)):
        assert main(words) == code
        assert "`opscope run train.py` makes one\n" in capsys.readouterr().err


def test_a_run_that_failed_says_with_what(capsys: Any) -> None:
    end = {"state": "failed", "reason": "RuntimeError", "message": "the disk went away", "step": 12}
    Path("opscope-runs/net-1/rank_0/end.json").write_text(json.dumps(end))
    assert main(["show", "last"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "net-1: failed: RuntimeError in step 12",
        "  RuntimeError: the disk went away",
    ]
    assert "how it ended" not in lines[2], "there is no recording"
