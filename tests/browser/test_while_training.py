"""A run that is still being written, and a server that goes away and comes back."""

from __future__ import annotations

from pathlib import Path

from browser.conftest import TOKEN, Looking, Made
from browser.trainings import Slow
from opscope.server.library import Library
from opscope.server.serve import in_background, listening_socket


def shown_step(looking: Looking) -> int:
    return int(looking.page.evaluate("Number(document.querySelector('#step').value)"))


def test_the_page_follows_a_training(looking: Looking, slow: Slow) -> None:
    looking.open(f"/run/{slow.run}")
    looking.see(".state-running")
    looking.see(".verdict.calm", "Nothing wrong")
    looking.wait("Number(document.querySelector('#step').value) >= 2")
    first = shown_step(looking)
    looking.wait(f"Number(document.querySelector('#step').value) > {first + 3}")
    looking.see("[data-scope='Default']")
    looking.page.keyboard.press("[")  # from here on that step stays
    kept = shown_step(looking)
    looking.wait(
        f"Number(document.querySelector('.stepfield .faint').innerText.slice(2)) > {kept + 8}"
    )
    assert shown_step(looking) == kept
    looking.page.keyboard.press("l")
    looking.wait(f"Number(document.querySelector('#step').value) > {kept + 8}")
    slow.end()
    looking.see(".state-finished")


def test_a_page_opened_before_its_run_is_there_waits(
    looking: Looking, made: Made, tmp_path: Path
) -> None:
    run, bring = made.add_later(tmp_path)
    looking.open(f"/run/{run}")
    looking.see(".empty", "no such run")
    bring()
    looking.see(".verdict.wrong")
    looking.see(".details h2", "log-op0")
    looking.forgive_refusals()


def test_the_page_survives_a_restart_of_the_server(browser, made: Made) -> None:
    sock = listening_socket("127.0.0.1", 0)
    port = sock.getsockname()[1]
    end = in_background(made.library, TOKEN, sock)
    looking = Looking(browser.new_context().new_page(), f"http://127.0.0.1:{port}")
    looking.open(f"/run/{made.bad}?step=3")
    looking.see("[data-scope='Default']")
    end()
    sock.close()
    looking.see(".offline", "does not answer")
    again = in_background(
        Library([made.folder / "bad"]), TOKEN, listening_socket("127.0.0.1", port)
    )
    looking.wait("!document.querySelector('.offline')")
    looking.page.keyboard.press("]")
    looking.see(".listhead", "numbers of step 4")
    assert looking.elsewhere == []
    looking.page.context.close()
    again()
