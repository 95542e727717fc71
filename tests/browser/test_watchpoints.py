"""The list of watchpoints and their editor, on a run that is over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from browser.conftest import TOKEN, Looking, Made
from browser.trainings import LAST

HEAD = "Default/network-Sequential/2-Head"


@pytest.fixture
def editor(looking: Looking, made: Made) -> Looking:
    """The page with no watchpoints."""
    path = f"{looking.address}/api/v1/runs/{made.bad}/watchpoints"
    headers = {"authorization": f"Bearer {TOKEN}"}
    order = {"action": "set", "watch": "none"}
    assert httpx.post(path, json=order, headers=headers).json() == []
    looking.open(f"/run/{made.bad}?list=watch")
    looking.see(".empty", "No watchpoint is set")
    return looking


def tick(page: Looking, name: str) -> None:
    page.see(f'[data-tick="{name}"]').click()


def selected(page: Looking) -> tuple[int, int]:
    page.see(".editright .listhead b", "selected")
    words = page.see(".editright .listhead b").inner_text().split()
    return int(words[0]), int(words[2])


def wait_selected(page: Looking, count: int) -> None:
    page.wait(f"document.querySelector('.editright b').innerText.startsWith('{count} of')")


def test_one_is_made_changed_switched_off_rechecked_and_removed(editor: Looking) -> None:
    page = editor
    page.see(".watchhead button", "New").click()
    page.see(".editor label", "check").locator("select").select_option("activation")
    page.see(".editor", "Give a threshold")
    page.see("input[name=range_percentage_lt]").fill("150")
    page.see("input[name=range_start_inclusive]").fill("0")
    page.see(".problem", "must be a number from 0 to 100")
    page.see(".editor button", "Create").click()
    page.see("form > .problem", "must be a number from 0 to 100")
    page.see(".editor label", "check").locator("select").select_option("tensor")
    page.see(".editor label", "condition").locator("select").select_option("TL")
    page.see("input[name=max_gt]").fill("-1")
    page.see(".preview", f"in the last {LAST + 1} steps")
    page.see(".watchname").fill("everything")
    page.see(".editor button", "Create").click()
    page.see(".watchitem", "everything")
    page.see(".watchitem", "TL max >")

    page.see(".watchhead button", "Recheck").click()
    page.see(".rechecked", f"Rechecked on step {LAST}")
    page.see(".watchitem .hits")
    assert page.page.locator(".chip", has_text="outdated").count() == 0
    page.see(".rechecked .hititem").click()
    page.see(".details h2")

    page.see(".watchitem .link").click()
    page.see(".editor", "Watchpoint 1")
    assert "view=edit" in page.page.url and "watchpoint=1" in page.page.url
    page.see("input[name=max_gt]").fill("1e9")
    page.see(".editor button", "Save").click()
    page.see(".watchitem .chip", "outdated")
    page.see(".rechecked .chip", "outdated")
    page.see(".watchhead button", "Recheck").click()
    page.wait("!document.querySelector('.watchitem .chip')")

    page.see(".watchitem input[type=checkbox]").click()
    page.wait("document.querySelector('.watchitem b.faint') !== null")
    page.see("[aria-label^='Leave']").click()
    page.see(".watchitem", "1 left alone")
    page.see("[aria-label^='Look at']").click()
    page.wait("!document.querySelector('.side-left').innerText.includes('left alone')")
    page.see(".watchitem [aria-label=Remove]").click()
    page.see(".empty", "No watchpoint is set")
    page.forgive_refusals()


def test_nodes_are_selected_by_ticks_search_class_and_expression(editor: Looking) -> None:
    page = editor
    page.see(".watchhead button", "New").click()
    every, total = selected(page)
    assert every == total > 20
    tick(page, "Gradients")
    page.see(".editright .listhead", "unticked")
    forward, _ = selected(page)
    assert 0 < forward < total
    page.see(".nodesearch").fill("relu")
    tick(page, "Default/network-Sequential/1-ReLU/relu-op0")
    wait_selected(page, forward - 1)
    page.see(".nodesearch").fill("")
    page.see(".editright button", "None").click()
    wait_selected(page, 0)
    tick(page, "Default/network-Sequential")
    page.wait("!document.querySelector('.editright b').innerText.startsWith('0 ')")
    in_network, _ = selected(page)
    assert 0 < in_network < forward
    page.see(".editright button", "All").click()
    wait_selected(page, total)
    page.see(".words summary").click()
    page.see(".wordgrid select").select_option("gradient")
    page.see("input[name=select-op_type]").fill("*softmax*")
    wait_selected(page, 1)
    page.see("input[name=select-regex]").fill("(")
    page.see(".problem", "is no regular expression")
    page.see("input[name=select-regex]").fill("Head")
    wait_selected(page, 1)
    page.see(".editor button", "Create").click()
    page.see(".watchitem", "class gradient")
    page.see(".watchitem", "op_type *softmax*")
    page.forgive_refusals()


def test_an_expression_with_its_preview(editor: Looking) -> None:
    page = editor
    page.see(".watchhead button", "New").click()
    page.see(".editor label", "check").locator("select").select_option("expression")
    page.see(".editor input.mono").fill("nan > 0 or maxi > 3")
    page.see(".problem", 'maxi is no statistic (did you mean "max"?)')
    page.see(".editor input.mono").fill("nan + inf > 0")
    page.see(".preview .bad", "This would have hit")
    page.see(".preview", "(in 1 of them)")
    page.see(".preview .hitline", f"step {LAST}").click()
    page.see(".details .card.wrong")
    page.see(".editor button", "Create").click()
    page.see(".watchitem", "nan + inf > 0")
    page.forgive_refusals()


def test_the_numbers_of_an_expression_are_placed_over_their_history(editor: Looking) -> None:
    page = editor
    typed = "document.querySelector('.editor input.mono').value"
    page.see(".watchhead button", "New").click()
    page.see(".editor label", "check").locator("select").select_option("expression")
    page.see(".editor input.mono").fill("max - min > 10 and zero_share < 0.25")
    page.see(".slider[data-parameter='1']", "beyond it")
    page.see(".slider[data-parameter='0'] button", "suggest").click()
    page.wait(f"!{typed}.startsWith('max - min > 10 ')")
    first, second = page.page.evaluate(typed).split(" and ")
    assert second == "zero_share < 0.25" and float(first.removeprefix("max - min > ")) > 0
    page.see(".slider[data-parameter='1'] input").fill("500")
    page.wait(f"!{typed}.endsWith('0.25')")
    again, second = page.page.evaluate(typed).split(" and ")
    assert again == first and 0 < float(second.removeprefix("zero_share < ")) < 1
    page.see(".preview")
    page.see(".editor button", "Create").click()
    page.see(".watchitem", second)


def test_a_threshold_is_placed_over_its_history(editor: Looking) -> None:
    page = editor
    page.see("#search").fill("relu")
    page.see(".found .row", "relu-op0").click()
    page.see(".details h2", "relu-op0")
    page.see(".details button", "Watch this").click()
    wait_selected(page, 1)
    page.see(".editor label", "condition").locator("select").select_option("TL")
    page.see("input[name=max_gt]").fill("0")
    page.see(".slider[data-parameter=max_gt] .band")
    page.see(".slider b", f"{LAST + 1} would hit")
    page.see(".preview", f"hit {LAST + 1} times in the last {LAST + 1} steps")
    page.see(".slider .chip", "suggest").click()
    page.see(".slider b", "0 would hit")
    page.see(".preview", f"hit 0 times in the last {LAST + 1} steps")
    page.see(".slider input").focus()
    page.page.keyboard.press("Home")
    page.see(".slider b", f"{LAST + 1} would hit")
    page.see(".editor button", "Cancel").click()
    page.see(".empty", "No watchpoint is set")
    page.forgive_refusals()


def test_they_are_exported_and_imported(editor: Looking, tmp_path: Path) -> None:
    page = editor
    page.see(".watchhead button", "All").click()
    page.see(".menu button", "recommended").click()
    page.see(".watchitem", "OO")
    count = page.page.locator(".watchitem").count()
    page.see(".watchhead button", "All").click()
    with page.page.expect_download() as download:
        page.see(".menu button", "Export").click()
    file = tmp_path / "watchpoints.json"
    download.value.save_as(file)
    data: dict[str, Any] = json.loads(file.read_text())
    assert len(data["watchpoints"]) == count and data["version"] == 1
    page.see(".watchhead button", "All").click()
    page.see(".menu button", "Remove all").click()
    page.see(".empty", "No watchpoint is set")
    page.page.locator(".watchhead input[type=file]").set_input_files(file)
    page.see(".watchitem", "OO")
    assert page.page.locator(".watchitem").count() == count
    (tmp_path / "wrong.json").write_text("{")
    page.page.locator(".watchhead input[type=file]").set_input_files(tmp_path / "wrong.json")
    page.see(".problem", "wrong.json is no JSON")


def test_a_scope_of_the_graph_is_watched(editor: Looking, made: Made) -> None:
    page = editor
    page.open(f"/run/{made.bad}?view=graph&scope=Default/network-Sequential")
    page.see(f".gbox[data-box='s:{HEAD}']").click(button="right")
    page.see(".graphbox .menu button", "Watch this").click()
    chosen, total = selected(page)
    assert 0 < chosen < total
    page.see(f'[data-tick="{HEAD}"]')
    assert page.page.locator(f'[data-tick="{HEAD}"]').is_checked()
