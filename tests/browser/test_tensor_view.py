"""The tensor view, every control of it, on a dump of two ranks, on a run with a hit, and live."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

from browser.conftest import playwright
from browser.tensor_page import View, number
from browser.tensors import BAD, CHANGED, COLUMNS, LONG, ROWS, Tensors, make_tensors
from helpers.shared import made_once

NAN_COLOUR = (0xC2, 0x00, 0x7A)


@pytest.fixture(scope="module")
def tensors(
    browser: playwright.Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tensors]:
    folder = made_once(tmp_path_factory, "tensors", make_tensors)
    found = Tensors(folder, tmp_path_factory.mktemp("live-tensors"))
    yield found
    found.end()


@pytest.fixture
def view(browser: playwright.Browser, tensors: Tensors) -> Iterator[View]:
    with View.in_window(browser, tensors.address) as found:
        yield found


def test_a_value_opens_from_details_as_a_heat_map_with_its_numbers(
    view: View, tensors: Tensors
) -> None:
    node = tensors.node(tensors.dump, "convolution-op0")
    view.open(f"/run/{tensors.dump}?step=2&node={node}")
    view.see("[data-side='output:0'] button", "View").click()
    view.see(".tensorcanvas")
    array = tensors.array("convolution-op0:0")
    view.see(".tensorview .viewbar", "f32[4, 8, 8, 8]")
    view.see(".topnumbers", f"{array.max():.4g}")
    negative = f"{(array < 0).sum():,}".replace(",", "\u202f")
    view.see(".topnumbers", f"negative{negative}")
    view.see(".looks .held", "from the dump")
    view.page.reload()
    view.see(".tensorcanvas")


def test_hovering_tells_the_element_and_colours_tell_the_sign(view: View, tensors: Tensors) -> None:
    array = tensors.array("addmm-op0:0").reshape(-1)
    node = tensors.node(tensors.dump, "head-Linear/addmm-op0")
    view.at(tensors.dump, node)
    shown = view.hover(0.5 / 4, 0.5 / 4)
    assert "[0, 0]" in shown
    assert float(shown.split("]")[1]) == pytest.approx(float(array[0]), rel=1e-6)
    red, _, blue, _ = view.colour(0.3 / 4, 0.3 / 4)
    assert (red > blue) == (array[0] > 0), "orange above zero, blue below"
    view.see("[data-choice=log]").click()
    assert view.state()["scale"] == "log"
    view.see(".lookbars input[type=checkbox]").click()
    view.wait("location.search.includes('clip')")
    assert view.state()["clip"] == "false"


def test_nan_and_infinities_are_unmistakable(view: View, tensors: Tensors) -> None:
    """Of step 3 the logarithms are: of 0, of something, of a negative number, of something."""
    node = tensors.node(tensors.run, "log-op0")
    view.at(tensors.run, node, step=BAD)
    view.see(".tensorlegend .swatch.nan")
    view.see(".tensorlegend .swatch.inf", "\u2212Inf")
    assert "NaN" in view.hover(2.5 / 4, 0.5) and "Infinity" in view.hover(0.5 / 4, 0.5)
    view.see(".looks .held", "saved with the hit")
    colours = [tuple(view.colour((place + 0.5) / 4, 0.08)) for place in range(4)]
    assert colours[2] == (*NAN_COLOUR, 255), "NaN is magenta"
    assert len(set(colours)) >= 3
    view.see("[data-jump=nan]").click()
    view.wait("location.search.includes('at%3D2')")
    view.see("[data-jump=neginf]").click()
    view.wait("location.search.includes('at%3D0')")


def test_hits_show_threshold_actual_value_and_advice(view: View, tensors: Tensors) -> None:
    view.open(f"/run/{tensors.run}?list=hits&step={BAD}")
    view.see(".hititem", "log").get_by_role("button", name="View").click()
    view.see(".tensorhit .condition")
    view.see(".tensorhit .advice", "advice")
    view.see(".tensorcanvas")
    assert f"step={BAD}" in view.page.url


def test_slices_of_every_kind(view: View, tensors: Tensors) -> None:
    array = tensors.array("convolution-op0:0")
    node = tensors.node(tensors.dump, "convolution-op0")
    view.at(tensors.dump, node, look="table", digits=10)
    for axis, word in enumerate(["0", "-1", "2:6", "::4"]):
        field = view.see(f"[data-axis='{axis}']")
        field.fill(word)
        field.press("Enter")
    view.wait("location.search.includes('index=')")
    view.wait("document.querySelectorAll('.trow[data-row-number]').length === 4")
    shown = [[number(text) for text in row] for row in view.settled_cells()]
    assert np.array(shown) == pytest.approx(array[0, -1, 2:6, ::4], rel=1e-6)
    field = view.see("[data-axis='1']")
    field.fill("99")
    field.press("Enter")
    view.see(".problem", "outside a dimension of 8")
    view.forgive_refusals()
    view.see(".slices button", "Whole").click()
    view.wait("!location.search.includes('index=')")
    view.see(".tcell")


def test_rows_and_columns_can_be_chosen(view: View, tensors: Tensors) -> None:
    view.at(tensors.dump, tensors.node(tensors.dump, "convolution-op0"), look="table")
    view.see("select[aria-label=columns]").select_option("1")
    view.see(".trow.top .thead >> text=7")
    view.wait("!document.querySelector('.trow.top').textContent.includes('8')")
    view.see(".trow[data-row-number='3'] .thead", "0,0,3")


def test_number_format(view: View, tensors: Tensors) -> None:
    first = float(tensors.array("addmm-op0:0")[0, 0])
    view.at(tensors.dump, tensors.node(tensors.dump, "head-Linear/addmm-op0"), look="table")
    assert number(view.settled_cells()[0][0]) == pytest.approx(first, rel=1e-3)
    view.see("[data-choice=science]").click()
    view.see("input[aria-label=digits]").fill("7")
    view.wait("/e\u2212?\\d/.test(document.querySelector('.tcell').textContent)")
    text = view.cells()[0][0]
    assert number(text) == pytest.approx(first, rel=1e-6) and len(text.lstrip("\u2212")) >= 11
    view.see("[data-choice=fixed]").click()
    view.see("input[aria-label=digits]").fill("2")
    view.wait("/^\u2212?\\d+\\.\\d\\d$/.test(document.querySelector('.tcell').textContent)")


def test_a_large_tensor_is_scrolled_zoomed_and_jumped_through(view: View, tensors: Tensors) -> None:
    array = tensors.array("neg-op0:0")
    view.at(tensors.dump, tensors.node(tensors.dump, "Default/neg-op0"))
    view.see(".tensorview .viewbar", f"[{ROWS}, {COLUMNS}]")
    view.see(".tensorlegend .swatch.nan")
    view.drawn(NAN_COLOUR, 16)  # one NaN of ten million is seen
    view.see("[data-jump=nan]").click()
    view.wait("location.search.includes('window%3D')")
    assert view.state()["at"] == "1234,567"
    view.look("table")
    view.see(".tcell.marked.bad", "NaN")
    view.see("[data-jump=max]").click()
    view.wait("document.querySelector('.tcell.marked')?.textContent === '1.000e6'")
    field = view.see("[data-jump=index]")
    field.fill("77,-1")
    field.press("Enter")
    expected = f"{array[77, -1]:.3g}".replace("-", "\u2212")
    view.wait(f"document.querySelector('.tcell.marked')?.textContent.startsWith('{expected}')")
    field.fill("77")
    field.press("Enter")
    view.see(".jump .problem", "77")
    view.page.evaluate("document.querySelector('.tensortable').scrollTop = 22 * 2400")
    view.see(".trow[data-row-number='2405']")
    rows = view.settled_cells()
    assert len(rows) < 60, "only what is seen is drawn"
    view.look("heat")
    view.see(".tensorlegend button", "Show all").click()
    view.wait("!location.search.includes('window%3D')")
    box = view.see(".tensorcanvas").bounding_box()
    assert box is not None
    view.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    view.page.mouse.wheel(0, -600)
    view.wait("location.search.includes('window%3D')")
    before = view.state()["window"]
    view.page.mouse.down()
    view.page.mouse.move(box["x"] + box["width"] / 3, box["y"] + box["height"] / 3, steps=3)
    view.page.mouse.up()
    view.wait(f"!location.search.includes('window%3D{before.replace('.', '.')}')")
    view.see(".tensorcanvas").dblclick()
    view.wait("!location.search.includes('window%3D')")


def test_a_table_of_more_rows_than_a_browser_has_pixels_for(view: View, tensors: Tensors) -> None:
    node = tensors.node(tensors.dump, "Default/neg-op0")
    view.at(tensors.dump, node, step=1, look="table", digits=9)
    table = view.see(".tensortable")
    view.page.evaluate("document.querySelector('.tensortable').scrollTop = 1e9")
    view.see(f".trow[data-row-number='{LONG - 1}']")
    assert number(view.settled_cells()[-1][-1]) == 2 * LONG - 1
    field = view.see("[data-jump=index]")
    field.fill("250001,1")
    field.press("Enter")
    view.see(".tcell.marked", "500003")
    first = "Number(document.querySelector('.trow[data-row-number]').dataset.rowNumber)"
    before = view.page.evaluate(first)
    table.hover()
    view.page.mouse.wheel(0, 44)
    view.wait(f"{first} === {before + 2}")
    view.page.mouse.wheel(0, -22)
    view.wait(f"{first} === {before + 1}")


def test_an_address_that_makes_no_sense_shows_the_tensor(view: View, tensors: Tensors) -> None:
    odd = {"look": "nonsense", "window": "1.2.x", "digits": "99999", "at": "a,b", "against": "zz"}
    odd |= {"show": "difference", "fold": "-3", "axis": "77", "stat": "__proto__", "x": "1"}
    view.at(tensors.dump, tensors.node(tensors.dump, "convolution-op0"), **odd)
    view.see(".tensorcanvas")
    for look in ("table", "histogram", "statistics", "trend"):
        view.look(look)
        view.see(".tcell, .histbars, .axistable, .trendlines")


def test_histograms_linear_and_log(view: View, tensors: Tensors) -> None:
    array = tensors.array("convolution-op0:0")
    node = tensors.node(tensors.dump, "convolution-op0")
    view.at(tensors.dump, node, look="histogram")
    view.see(".histbars .onebar")
    titles = view.page.locator(".histbars title").all_text_contents()
    counts = [int(re.sub(r"\D", "", title.rpartition(":")[2])) for title in titles]
    assert sum(counts) == array.size
    assert counts == np.histogram(array.astype(float), len(counts))[0].tolist()
    view.see(".histogramlook .choice >> nth=0").get_by_text("log").click()
    view.wait("document.querySelector('.histbars title').textContent.startsWith('|x|')")
    view.see(".histogramlook .choice >> nth=1").get_by_text("log").click()
    view.wait("location.search.includes('tall%3Dlog')")


def test_statistics_of_all_and_along_an_axis(view: View, tensors: Tensors) -> None:
    array = tensors.array("convolution-op0:0").astype(float)
    node = tensors.node(tensors.dump, "convolution-op0")
    view.at(tensors.dump, node, look="statistics", axis=1)
    view.see(".statcards", f"{np.quantile(array, 0.75):.3g}")
    table = view.see(".axistable tbody")
    assert table.locator("tr").count() == 8
    third = table.locator("tr").nth(2).locator("td").all_inner_texts()
    assert number(third[2]) == pytest.approx(array[:, 2].mean(), rel=1e-3)
    assert number(third[4]) == pytest.approx(array[:, 2].std(), rel=1e-3)
    view.see(".along select").select_option("0")
    view.wait("document.querySelectorAll('.axistable tbody tr').length === 4")
    view.page.locator(".axistable tbody tr").nth(1).click()
    view.wait("location.search.includes('index=1')")
    view.see(".tensorcanvas")


def test_step_against_step_with_tolerance(view: View, tensors: Tensors) -> None:
    now, before = (tensors.array("convolution-op0:input:1", step) for step in (2, 1))
    node = tensors.node(tensors.dump, "convolution-op0")
    view.at(tensors.dump, node, "input:1")
    view.see("select[aria-label=against]").select_option("p")
    view.see(".against [data-choice=difference].on")
    view.see("[data-jump=apart]").click()
    apart = np.abs(now.astype(float) - before)
    at = ",".join(map(str, np.unravel_index(apart.argmax(), apart.shape)))
    view.wait(f"decodeURIComponent(location.search).includes('at={at}')")
    view.look("statistics")
    view.see(".apart", f"{apart.max():.3g}")
    view.see("[data-tolerance=atol]").fill("1000")
    view.see("[data-tolerance=atol]").press("Enter")
    view.see(".apart dd:text-is('0')")
    view.see("[data-choice=before]").click()
    view.look("table")
    view.settled_cells()
    shown = number(view.see(".tcell.marked").inner_text())
    assert shown == pytest.approx(float(before.reshape(-1)[apart.argmax()]), rel=1e-3)
    view.see("[data-choice=now]").click()
    view.wait("!location.search.includes('show%3D')")


def test_rank_against_rank(view: View, tensors: Tensors) -> None:
    node = tensors.node(tensors.dump, "head.weight")
    view.at(tensors.dump, node)
    view.see("select[aria-label=against]").select_option("r1")
    view.see("[data-jump=apart]").click()
    at = ",".join(map(str, CHANGED))
    view.wait(f"decodeURIComponent(location.search).includes('at={at}')")
    view.look("statistics")
    view.see(".apart", "0.5000")


def test_pictures_of_filters_and_attention(view: View, tensors: Tensors) -> None:
    node = tensors.node(tensors.dump, "convolution-op0")
    view.at(tensors.dump, node, "input:1")
    view.look("pictures")
    view.see(".pictureslook", "filters")
    view.see(".pictureslook", "8 \u00d7 3 \u00d7 3")
    view.see(".sheet canvas")
    assert len({tuple(view.colour(x / 10, 0.05)) for x in range(10)}) > 3
    view.at(tensors.dump, tensors.node(tensors.dump, "_softmax-op0"), look="pictures")
    view.see(".pictureslook", "attention maps")
    view.at(tensors.dump, tensors.node(tensors.dump, "head-Linear/addmm-op0"))
    view.see(".looks")
    assert view.page.locator("[data-look=pictures]").count() == 0


def test_the_trend_leads_to_a_step(view: View, tensors: Tensors) -> None:
    view.at(tensors.run, tensors.node(tensors.run, "log-op0"), step=BAD, look="trend")
    view.see(".trendlines .badmark")
    assert view.page.locator(".trendlines circle").count() >= BAD
    view.see(".trendlook select").select_option("std")
    view.wait("location.search.includes('stat%3Dstd')")
    box = view.see(".trendlines").bounding_box()
    assert box is not None
    view.page.mouse.click(box["x"] + 60, box["y"] + 40)
    view.wait("document.querySelector('#step').value === '0'")


def test_the_path_of_a_fault_can_be_walked_and_walked_back(view: View, tensors: Tensors) -> None:
    view.at(tensors.run, tensors.node(tensors.run, "neg-op0"), step=BAD, look="relations")
    view.see(".rbox.centre.wrong", "neg-op0")
    view.see(".rbox.wrong", "mean-op0").click()
    view.see(".rbox.centre", "mean-op0")
    view.see(".rbox", "log-op0").click()
    view.see(".rbox.centre .conditions")
    view.see(".rbox:not(.wrong)", "select-op0")
    view.see(".relationslook button", "Back").click()
    view.see(".rbox.centre", "mean-op0")
    view.see(".relationslook button", "Forward").click()
    view.see(".rbox.centre", "log-op0")
    few = view.page.locator(".rbox").count()
    view.see("select[aria-label='operators far']").select_option("4")
    view.wait(f"document.querySelectorAll('.rbox').length > {few}")
    view.see("select[aria-label='coloured by']").select_option("zero_share")
    view.see(".rbox .gdetail", "%")
    view.at(tensors.dump, tensors.node(tensors.dump, "convolution-op0"), look="relations")
    view.see(".relationbox", "does not say where inputs come from")
    view.forgive_refusals()


def test_a_parameter_is_reached_through_relations(view: View, tensors: Tensors) -> None:
    node = tensors.node(tensors.run, "convolution-op0")
    view.at(tensors.run, node, step=BAD, look="relations", hops=1)
    view.see(".rbox.outside", "conv.weight").click()
    view.see(".tensorview .viewbar", "input:1")
    view.look("heat")
    view.see(".looks .held", "saved with the hit")
    view.see(".tensorcanvas")


def test_files_and_python_give_the_same_elements(
    view: View, tensors: Tensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = tensors.array("addmm-op0:0")
    node = tensors.node(tensors.dump, "head-Linear/addmm-op0")
    view.at(tensors.dump, node)
    with view.page.expect_download() as download:
        view.see(".export a", ".npy").click()
    found = np.load(io.BytesIO(Path(download.value.path()).read_bytes()))
    assert np.array_equal(found, array)
    with view.page.expect_download() as download:
        view.see(".export a", ".safetensors").click()
    assert np.array_equal(load(Path(download.value.path()).read_bytes())["value"], array)
    assert np.array_equal(run_snippet(view, monkeypatch), array)


def test_what_was_not_saved_says_so_and_shows_its_trend(view: View, tensors: Tensors) -> None:
    view.at(tensors.run, tensors.node(tensors.run, "relu-op0"), step=1)
    view.see(".notheld", "were not saved")
    view.see(".trendlines")
    view.see(".topnumbers")


def test_the_whole_window_can_be_used(view: View, tensors: Tensors) -> None:
    view.at(tensors.dump, tensors.node(tensors.dump, "convolution-op0"))
    view.see(".tensorcanvas")
    view.page.keyboard.press("f")
    view.see(".tensorview.wide")
    view.page.reload()
    view.see(".tensorview.wide .tensorcanvas")
    view.page.keyboard.press("Escape")
    view.wait("!document.querySelector('.tensorview.wide')")


def run_snippet(view: View, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """What the Python that the page shows has as its array."""
    monkeypatch.setenv("OPSCOPE_TOKEN", view.token)
    view.see(".export button", "Open in Python").click()
    code = view.see(".snippet pre").inner_text()
    view.see(".export button", "Open in Python").click()
    names: dict[str, Any] = {}
    exec(code, names)  # what the page says gives what it shows
    found: np.ndarray = names["array"]
    return found


def test_values_of_a_training_that_is_held(
    view: View, tensors: Tensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors.start_live()
    tensors.post("/watchpoints", action="set", watch="none")
    tensors.post("/control", verb="step", count=2)
    tensors.until(lambda rank: rank["state"] == "paused" and rank["step"] == 1)
    node = tensors.node(tensors.live, "relu-op0")
    view.open(f"/run/{tensors.live}?view=value&node={node}&value=output:0")
    view.see(".notheld button", "Keep").click()
    view.see(".notheld", "kept from the next time")
    tensors.post("/control", verb="step", count=2)
    tensors.until(lambda rank: rank["state"] == "paused" and rank["step"] == 3)
    view.page.reload()
    view.see(".looks .held", "kept by the training")
    view.see(".tensorcanvas")
    name = next(n["name"] for n in nodes_of(tensors) if n["id"] == node)
    tensors.post("/control", verb="to", node=name)
    tensors.until(lambda rank: rank["state"] == "paused" and rank["step"] == 4)
    view.page.reload()
    kept = tensors.post("/value", node=name, part="slice", index="0")["elements"]
    view.look("table")
    shown = [number(text) for text in view.settled_cells()[0]]
    assert shown == pytest.approx(kept[: len(shown)], rel=1e-3, abs=1e-12)
    field = view.see("[data-axis='0']")
    field.fill("0")
    field.press("Enter")
    view.wait("location.search.includes('index=')")
    kept_array = np.array(kept, np.float32)
    with view.page.expect_download() as download:
        view.see(".export a", ".npy").click()
    assert np.array_equal(np.load(download.value.path()), kept_array)
    with view.page.expect_download() as download:
        view.see(".export a", ".safetensors").click()
    assert np.array_equal(load(Path(download.value.path()).read_bytes())["value"], kept_array)
    assert np.array_equal(run_snippet(view, monkeypatch), kept_array)
    view.see(".slices button", "Whole").click()
    view.see("select[aria-label=against]").select_option("p")
    view.look("statistics")
    view.see(".apart", "largest difference")
    linear = tensors.node(tensors.live, "0-Linear/addmm-op0")
    sides = tensors.client.get(f"/runs/{tensors.live}/ranks/0/nodes/{linear}").json()["inputs"]
    slot = next(side["slot"] for side in sides if side["source"] == "parameter 0.bias")
    view.open(f"/run/{tensors.live}?view=value&node={linear}&value=input:{slot}")
    view.see(".looks .held", "the parameter as it is now")
    view.see(".tensorcanvas")


def nodes_of(tensors: Tensors) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tensors.client.get(
        f"/runs/{tensors.live}/ranks/0/nodes", params={"count": 500}
    ).json()["nodes"]
    return found


def test_it_speaks_chinese_and_fits(view: View, tensors: Tensors) -> None:
    view.at(tensors.dump, tensors.node(tensors.dump, "convolution-op0"))
    view.see(".topbar button", "中文").click()
    view.see(".looks", "热力图")
    assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
