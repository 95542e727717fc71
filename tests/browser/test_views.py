"""The heat map and the graph, a dump, the list of runs, and names that mean harm."""

from __future__ import annotations

import shutil
from pathlib import Path

from browser.conftest import Looking, Made
from browser.trainings import HOSTILE_CLASS, HOSTILE_NAME, LAST, Slow


def test_a_cell_of_the_heat_map_leads_to_a_node_in_that_step(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}?view=heat&step=0&node=1")
    canvas = looking.see(".heatcanvas").bounding_box()
    row = looking.see("[data-scope='Gradients/Default/network-Sequential']").bounding_box()
    assert canvas is not None and row is not None
    cell = min(28, canvas["width"] / (LAST + 1))
    looking.page.mouse.click(canvas["x"] + cell * (LAST + 0.5), row["y"] + 8)
    looking.wait(f"document.querySelector('#step').value === '{LAST}'")
    looking.see(".details .facts", "Gradients/Default/network-Sequential")
    looking.see(".details .card.wrong")


def test_the_heat_map_folds_and_changes_its_statistic(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}?view=heat")
    inner = "[data-scope='Default/network-Sequential/2-Head']"
    looking.see(f".heatlabel{inner}")
    looking.see(".heatlabel[data-scope='Default/network-Sequential']").click()
    looking.wait(f'!document.querySelector(".heatlabel{inner}")')
    looking.see(".heat select").select_option("zero_share")
    looking.wait("location.search.includes('stat=zero_share')")


def test_the_graph_opens_a_scope(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}?view=graph&scope=Default")
    looking.see(".gbox[data-box='s:Default/network-Sequential']")
    looking.see(".graphtools button", "Fit").click()
    looking.see(".gbox[data-box='s:Default/network-Sequential']").dblclick()
    looking.see(".crumbs", "network-Sequential")
    looking.see(".gbox[data-box='s:Default/network-Sequential/2-Head']").dblclick()
    looking.see(".gbox", "softmax-op0").click()
    looking.see(".details h2", "softmax-op0")
    looking.see(".gbox.chosen", "softmax-op0")
    looking.see(".edgelabel", "float32[16, 4]")
    looking.see(".gbox.chosen").click(button="right")
    looking.see(".graphbox .menu button", "Show in the list").click()
    looking.see(".side-left .item", "softmax-op0")
    looking.see(".crumbs button", "Default").press("Enter")
    looking.see(".gbox[data-box='s:Default/network-Sequential']")


def test_the_operator_of_the_verdict_is_shown_in_the_graph(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}")
    looking.see(".verdict button", "Operator").click()
    looking.see(".gbox.chosen.wrong", "log-op0")


def test_the_graph_is_coloured_by_what_the_fault_reached(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}?view=graph&scope=Default&step={LAST}&colour=reached")
    looking.see(".gbox.origin", "log-op0")
    looking.see(".gbox.wrong:not(.origin)", "mean-op0")
    looking.see(".gbox.off", "network-Sequential")
    looking.see(".graphlegend", "it began here")
    looking.see(".graphtools select").select_option("class")
    looking.see(".gbox.g-activation", "select-op0")
    looking.see(".graphlegend", "gradients")
    looking.see(".graphtools select").select_option("zero")
    looking.see(".gbox.filled", "mul-op0")
    assert "colour=zero" in looking.page.url
    looking.see(".gbox", "select-op0").click()
    looking.see(".gbox.g-node:not(.away)", "log-op0")
    looking.open(f"/run/{made.pair}?view=graph&scope=Default&colour=reached&rank=0&step=1")
    looking.see(".graphlegend", "no verdict")


def test_a_path_goes_through_closed_scopes(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}?view=graph&scope=Default&step={LAST}")
    looking.see(".gbox", "randn-op0").click()
    looking.see(".details h2", "randn-op0")
    looking.see(".gbox", "gt-op0").click(button="right")
    looking.see(".graphbox .menu button", "Path from the selected").click()
    looking.see(".pathpanel header", "operators")
    looking.wait("document.querySelectorAll('.edge.trail').length === 2")  # into the network, out
    looking.see(".gbox[data-box='s:Default/network-Sequential']:not(.away)")
    looking.see(".gbox.away", "optimizer-SGD")
    stops = looking.page.locator(".pathpanel .stop")
    assert "randn-op0" in stops.first.inner_text() and "gt-op0" in stops.last.inner_text()
    stops.nth(1).click()  # an operator inside the network: its scope opens, the path stays
    looking.see(".crumbs", "network-Sequential")
    looking.see(".pathpanel .stop.chosen")
    looking.wait("document.querySelector('.edge.trail')")
    before = looking.see(".pathpanel .stop.chosen").inner_text()
    looking.page.keyboard.press("p")
    looking.see(".pathpanel .stop.chosen", "randn-op0")
    looking.page.keyboard.press("n")
    looking.see(".pathpanel .stop.chosen", before)
    looking.page.reload()
    looking.see(".pathpanel .stop.chosen", before)
    looking.see(".viewbar button", "Path from the origin").click()
    looking.see(".pathpanel .stop", "log-op0")
    looking.see(".pathpanel button[aria-label=Close]").click()
    looking.wait("!document.querySelector('.pathpanel')")


def test_pointing_at_a_box_shows_its_paths(looking: Looking, made: Made) -> None:
    place = f"/run/{made.bad}?view=graph&scope=Default/network-Sequential/2-Head&backward=true"
    looking.open(f"{place}&step=3")
    looking.see(".gbox", "_softmax_backward_data-op0")
    assert looking.page.locator(".gbox.away").count() == 0
    looking.see(".gbox[data-box^='o:parameter'], .gbox[data-box^='e:']").hover()
    looking.see(".edge.path, .edge.lit")


def test_runs_are_listed_and_opened(looking: Looking, made: Made) -> None:
    looking.open("/")
    looking.see(".runtable tr", "stopped")
    looking.see(".runtable tr", "dump")
    assert looking.page.locator(".runtable tbody tr").count() >= 4
    looking.see(".runtable tr", "bad").click()
    looking.see(".verdict.wrong")
    looking.page.go_back()
    looking.see(".runtable")


def test_a_dump_opens_with_its_values(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.dump}?step=1")
    looking.see("#search").fill("softmax")
    looking.see(".found .row", "softmax").click()
    looking.see("[data-side='output:0'] button", "View").click()
    looking.see(".tensorview", "[16, 4]")
    looking.see(".tensorcanvas")
    with looking.page.expect_download() as download:
        looking.see("[data-side='output:0'] a", ".npy").click()
    assert download.value.suggested_filename.endswith(".npy")


def test_of_two_ranks_the_one_with_the_fault_is_shown(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.pair}")
    looking.see(".verdict.wrong", "began in div")
    looking.see(".details h2", "div-op0")
    assert "rank=1" in looking.page.url
    looking.see(".topbar select").select_option("0")
    looking.see(".verdict.calm", "Nothing wrong")
    looking.see(".tabs button", "Ranks").click()
    looking.see(".rankdiff.first[data-kind=not_finite]", "rank 1 · step 2")
    looking.see(".rankdiff.first button", "Show").click()
    looking.see(".verdict.wrong", "began in div")
    looking.see(".details h2", "div-op0")


def test_hostile_names_are_shown_as_text(looking: Looking, slow: Slow) -> None:
    looking.open(f"/run/{slow.run}?list=nodes&text=addmm&step=2")
    name = looking.see(".side-left .item .name", "<script>")
    shown = name.get_attribute("title") or ""
    assert HOSTILE_NAME in shown and HOSTILE_CLASS in shown
    name.click()
    looking.see(".details h2", "addmm-op0")
    for view in ("s", "h", "g", "t"):
        looking.page.keyboard.press(view)
        looking.page.wait_for_timeout(250)
    looking.page.keyboard.press("2")
    looking.see(".side-left .item", "xxxx").click()
    looking.see(".details .facts", "xxxx")
    looking.page.keyboard.press("1")
    looking.see(".treerow.scope", "<script>alert(1)<").click()
    looking.see(".treerow.scope", "<img src=x")
    assert looking.page.locator(".page img[src='x'], .page script").count() == 0
    assert looking.page.title() != "owned"
    wide = "document.documentElement.scrollWidth <= innerWidth"
    assert looking.page.evaluate(wide)


def test_a_run_may_be_called_anything(looking: Looking, made: Made, tmp_path: Path) -> None:
    place = tmp_path / f"{HOSTILE_CLASS}&amp;\"'😀"
    shutil.copytree(made.folder / "bad", place)
    made.library.add(place)
    looking.open("/")
    looking.see(".runtable a", place.name).click()
    looking.see(".runname", place.name)
    looking.see(".verdict.wrong")
    assert looking.page.title() == f"{place.name} · opscope"
    assert looking.page.locator("img[src=x]").count() == 0


def test_an_address_that_leads_nowhere_says_so(looking: Looking, made: Made) -> None:
    looking.open("/run/no-such-run.000000")
    looking.see(".empty", "no such run")
    looking.forgive_refusals()
