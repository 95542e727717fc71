"""A person looks at a training that turned NaN: from the verdict to the operator and its line."""

from __future__ import annotations

import contextlib
import io

from browser.conftest import Looking, Made
from browser.trainings import LAST


def test_a_run_opens_with_its_verdict_and_where_it_began(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}")
    sentence = looking.see(".verdict.wrong .sentence").inner_text()
    assert f"NaN or Inf in step {LAST}" in sentence and "losses.py:6" in sentence
    assert looking.see(".details h2", "log-op0")
    looking.see("[data-side='output:0'].wrong")
    assert looking.see(".srcrow.on").get_attribute("data-line") == "6"
    assert f"step={LAST}" in looking.page.url and "node=" in looking.page.url
    assert "token" not in looking.page.url


def test_the_story_says_why(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}")
    looking.see(".verdict button", "Why").click()
    story = looking.see(".story").inner_text()
    assert "clamp the input" in story and "return -picked.log().mean()" in story
    assert "output 0 is bad first at [" in story and "where input 0 is 0" in story
    looking.see(".story button", f"step {LAST - 1}").click()  # what the input was before
    looking.wait(f"document.querySelector('#step').value === '{LAST - 1}'")


def test_the_story_of_a_training_that_diverges(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.grown}?why=true")
    looking.see(".verdict .sentence", "training diverges since step")
    looking.see(".story", "-fold in every step")
    looking.see(".story button", "addmm-op0").click()
    looking.see(".side-left .item", "addmm-op0")


def test_what_did_no_harm_is_noted(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.grown}")
    looking.see(".verdict button", "1 noted").click()
    looking.see(".notes summary").click()
    looking.see(".notes button", "masked away before it got anywhere").click()
    looking.see(".details h2", "log-op0")
    looking.wait("document.querySelector('#step').value === '1'")
    looking.see(".notes .where", "grown.py:12")


def test_the_operator_is_compared_with_the_step_before(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}")
    looking.see(".verdict button", "Compare").click()
    table = looking.see("[data-side='output:0'] .compared")
    assert table.locator("thead th").all_inner_texts() == ["step 8", "step 9"]
    infinite = table.locator("tbody tr").first
    assert infinite.locator("th, td").all_inner_texts() == ["−Inf", "0", "16"]  # noqa: RUF001
    assert "before=true" in looking.page.url
    table.locator("button", has_text="step 8").click()
    looking.wait("document.querySelector('#step').value === '8'")
    looking.see(".details button.on", "compare with step 7").click()
    looking.see("[data-side='output:0'] .numbers dt", "kurtosis")
    assert looking.page.locator(".compared").count() == 0


def test_an_operator_that_did_not_run_before_has_nothing_to_compare(
    looking: Looking, made: Made
) -> None:
    looking.open(f"/run/{made.bad}?step=0&list=nodes&text=gt-op&before=true")
    looking.see(".side-left [data-node]").click()
    looking.see(".stepfield input").fill("9")
    looking.page.keyboard.press("Enter")
    looking.see(".details", "There are no numbers of it in step 8")


def test_a_click_goes_to_the_node_and_its_line(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}?step=3")
    looking.see("[data-scope='Default/network-Sequential']").click()
    head = "[data-scope='Default/network-Sequential/2-Head']"
    looking.see(head).click()
    looking.wait(f'document.querySelector("{head} .spark polyline")')
    looking.see(".treerow.node", "softmax-op0").click()
    looking.see(".details h2", "softmax-op0")
    looking.see(".files .on", "train.py")
    assert looking.see(".srcrow.on").get_attribute("data-line") == "16"
    looking.see(".linenodes .chosen", "softmax-op0")


def test_a_line_selects_its_operators(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}?step=3")
    looking.see(".files button", "losses.py").click()
    looking.see(".srcrow.marked[data-line='6']").click()
    nodes = looking.see(".linenodes").inner_text()
    assert "log-op0" in nodes and "mean-op0" in nodes
    looking.see(".details h2", "log-op0")


def test_the_step_moves_everything(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}")
    looking.see(".details .card.wrong")
    looking.page.keyboard.press("[")
    looking.wait(f"document.querySelector('#step').value === '{LAST - 1}'")
    looking.see(".details .facts", f"numbers of step {LAST - 1}")
    looking.wait("!document.querySelector('.details .card.wrong')")
    looking.see(".listhead", f"numbers of step {LAST - 1}")
    looking.see("#step").fill("2")
    looking.page.keyboard.press("Enter")
    looking.see(".details .facts", "numbers of step 2")
    looking.page.keyboard.press("}")
    looking.see(".details .facts", f"numbers of step {LAST}")


def test_the_strip_chooses_a_step(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}")
    over = looking.see(".strip .u-over").bounding_box()
    assert over is not None
    looking.page.mouse.click(over["x"] + over["width"] * 4 / LAST, over["y"] + 20)
    looking.wait("document.querySelector('#step').value === '4'")
    looking.see(".details .facts", "numbers of step 4")
    assert looking.page.locator(".lane").count() >= 1


def test_search_finds_by_name_and_by_line(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}")
    looking.see(".details h2")
    looking.page.keyboard.press("/")
    looking.page.keyboard.type("softmax")
    looking.see(".found .row", "softmax-op0")
    looking.page.keyboard.press("Enter")
    looking.see(".details h2", "softmax-op0")
    looking.see("#search").fill("losses.py:6")
    looking.see(".found .all").click()
    looking.see(".side-left .item", "log-op0")
    assert "list=nodes" in looking.page.url


def test_hits_are_listed_and_lead_to_their_node(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}?list=hits&step=0&node=1")
    looking.see(".hititem", "log").click()
    looking.see(".details h2", "log-op0")
    looking.wait(f"document.querySelector('#step').value === '{LAST}'")
    looking.wait("document.querySelector('.hititem .hitlane .mark')")
    _, hits, _, _, groups = looking.see(".side-left .listhead", "groups ").inner_text().split()
    assert 1 <= int(groups) <= int(hits)
    looking.see(".filters button", "grouped").click()
    looking.see(".side-left .listhead", f"{hits} hits")
    assert looking.page.locator(".hitlane").count() == 0 and "flat=true" in looking.page.url
    looking.see(".filters select[aria-label=graph]").select_option("1")
    looking.see(".side-left .listhead", "0 hits")


def test_nodes_are_filtered(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}?list=nodes&step=3")
    total = looking.see(".side-left .listhead", "nodes").inner_text()
    filters = (("phase", "backward"), ("class", "gradient"), ("graph", "0"))
    for name, value in filters:
        looking.see(f".filters select[aria-label={name}]").select_option(value)
    looking.wait(f"document.querySelector('.side-left .listhead').innerText !== '{total}'")
    looking.see(".side-left .item", "AccumulateGrad-op0")
    assert looking.page.locator(".side-left .item .phase-forward").count() == 0
    looking.see("#op").fill("no_such_operator")
    looking.see(".empty", "No node matches")


def test_the_table_of_steps(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}?view=steps")
    looking.see(f".steprow[data-step='{LAST}'] .hits")
    assert looking.page.locator(".steprow[data-step]").count() == LAST + 1
    looking.see(".steprow[data-step='5']").click()
    looking.wait("document.querySelector('#step').value === '5'")


def test_reload_keeps_the_place_and_back_returns(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}")
    looking.see(".details h2", "log-op0")
    looking.page.keyboard.press("h")
    looking.see(".heatlabel")
    looking.page.keyboard.press("[")
    looking.see(".details .facts", f"numbers of step {LAST - 1}")
    before = looking.page.url
    looking.page.reload()
    looking.see(".heatlabel")
    looking.see(".details h2", "log-op0")
    looking.see(".details .facts", f"numbers of step {LAST - 1}")
    assert looking.page.url == before
    looking.page.go_back()
    looking.see(".details .facts", f"numbers of step {LAST}")
    looking.page.go_back()
    looking.see(".srctext")


def test_copying_gives_json_python_and_a_link(looking: Looking, made: Made) -> None:
    looking.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    looking.open(f"/run/{made.bad}")
    for item, expected in (
        ("Copy as JSON", '"op_type": "log"'),
        ("Copy as Python", "opscope.open("),
        ("Copy link", f"/run/{made.bad}"),
    ):
        looking.see(".details header .copy button").click()
        looking.see(".menu button", item).click()
        looking.see(".details header .copy", "Copied")
        copied = looking.page.evaluate("navigator.clipboard.readText()")
        assert expected in copied


def test_what_every_panel_gives_as_python_runs(looking: Looking, made: Made) -> None:
    looking.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    views = ("source", "heat", "graph", "steps", "value")
    lists = ("model", "nodes", "lines", "hits", "watch")
    copied: set[str] = set()
    for view, name in zip(views, lists, strict=True):
        looking.open(f"/run/{made.bad}?view={view}&list={name}&value=output:0")
        looking.see(".details header .copy")
        looking.see(".side-middle .copy")
        looking.see(".side-left .copy")
        copied |= copied_python(looking)
    looking.open(f"/run/{made.pair}?view=ranks")
    looking.see(".ranksview .copy")
    copied |= copied_python(looking)
    assert len(copied) >= 8
    for text in copied:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            made_names: dict[str, object] = {}
            exec(compile(text, "copied", "exec"), made_names)  # as a person would paste it
        assert printed.getvalue().strip() or "array" in made_names, text


def copied_python(looking: Looking) -> set[str]:
    """What each panel that is shown gives as Python."""
    found: set[str] = set()
    for panel in looking.page.locator(".copy > button[title=Copy]:visible").all():
        panel.click()
        looking.see(".menu button", "Copy as Python").click()
        looking.wait("!document.querySelector('.menu')")
        text = looking.page.evaluate("navigator.clipboard.readText()")
        assert "opscope.open(" in text
        found.add(text)
    return found


def test_dark_mode_and_language_are_kept(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}")
    looking.see(".details h2")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = looking.page.evaluate(ground)
    looking.page.keyboard.press("d")
    looking.wait("document.documentElement.dataset.theme === 'dark'")
    assert looking.page.evaluate(ground) != light
    looking.see("button", "中文").click()
    looking.see(".tabs", "热力图")
    looking.page.reload()
    looking.see(".tabs", "热力图")
    assert looking.page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_keys_are_listed(looking: Looking, made: Made) -> None:
    looking.open(f"/run/{made.bad}")
    looking.see(".details h2")
    looking.page.keyboard.press("?")
    looking.see("dialog.help", "step back, on")
    looking.page.keyboard.press("Escape")
    looking.wait("!document.querySelector('dialog')")


def test_the_line_is_in_sight_on_a_small_screen(looking: Looking, made: Made) -> None:
    looking.page.set_viewport_size({"width": 1024, "height": 520})
    looking.open(f"/run/{made.bad}?step=3&node=1")
    looking.see("#search").fill("softmax-op0")
    looking.see(".found .row", "softmax-op0").click()
    looking.see(".linenodes .chosen", "softmax-op0")
    looking.see(".srcrow.on[data-line='16']")
    links = looking.page.locator("a[href^='vscode://file/']")
    places = {str(link.get_attribute("href")) for link in links.all()}
    assert any(place.endswith("train.py:16") for place in places), "for the person's editor"
    text, line = (looking.see(place).bounding_box() for place in (".srctext", ".srcrow.on"))
    assert text is not None and line is not None
    assert text["y"] <= line["y"] and line["y"] + line["height"] <= text["y"] + text["height"] + 1


def test_a_narrow_window_shows_one_part_at_a_time(looking: Looking, made: Made) -> None:
    looking.page.set_viewport_size({"width": 480, "height": 900})
    looking.open(f"/run/{made.bad}?view=source&why=true")
    looking.see(".srcrow.on")
    looking.see(".story", "log")
    looking.see(".parts button", "Lists").click()
    looking.see(".side-left [data-node]")
    looking.see(".parts button", "Details").click()
    looking.see(".side-right .details h2", "log-op0")
    assert looking.page.locator(".columns > section").count() == 1
    for place in (f"/run/{made.bad}", f"/run/{made.dump}", "/"):
        looking.open(place)
        looking.see(".topbar")
        assert looking.page.evaluate("document.documentElement.scrollWidth") == 480, place


def test_on_a_very_wide_screen_all_is_larger_and_the_mouse_still_meets(
    looking: Looking, made: Made
) -> None:
    def height() -> float:
        title = looking.see(".details h2")
        found: float = title.evaluate("each => each.getBoundingClientRect().height")
        return found

    looking.page.set_viewport_size({"width": 1920, "height": 1080})
    looking.open(f"/run/{made.bad}?view=heat&step=0&node=20")
    usual = height()
    looking.page.set_viewport_size({"width": 3840, "height": 2160})
    looking.wait("document.documentElement.style.getPropertyValue('--zoom') === '2'")
    assert height() > 1.9 * usual
    row = looking.see(".heatlabel[data-scope='Gradients/Default/network-Sequential']")
    canvas, label = looking.see(".heatcanvas").bounding_box(), row.bounding_box()
    assert canvas is not None and label is not None
    cell = 2 * 28
    looking.page.mouse.click(canvas["x"] + cell * (LAST + 0.5), label["y"] + label["height"] / 2)
    looking.wait(f"document.querySelector('#step').value === '{LAST}'")
    looking.see(".details .facts", "Gradients/Default/network-Sequential")
    # A canvas has a point for every pixel of the screen, and nothing is wider than the screen.
    looking.wait("document.querySelector('.heatcanvas').width > 2000")
    assert looking.page.evaluate("document.documentElement.scrollWidth") == 3840
    chart = looking.see(".chart").bounding_box()
    assert chart is not None and abs(chart["width"] - 3840) < 4
    looking.page.mouse.click(chart["x"] + 2 * 300, chart["y"] + 70)
    looking.wait("document.querySelector('#step').value === '1'")
