"""The page in a browser: nothing is fetched, everything is drawn, nobody's words become its own."""

import html
import re

import pytest
from browser_pages import OpenedPage, comes, needs_chromium
from report_runs import FEW, NASTY, quick_comparison, quick_settings, write_images

from shadowmetric.app.report.charts import MemoryBar
from shadowmetric.app.report.making import write_report
from shadowmetric.app.report.page import BUDGET
from shadowmetric.app.report.tables import Table

pytestmark = needs_chromium
EVIL = "<img src=x onerror=alert(3)>"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page of a comparison, with a table and a memory chart that were given."""
    folder = tmp_path_factory.mktemp("page")
    data = f"npz:{write_images(folder / 'data.npz')}"
    plan = quick_comparison(folder / "compare", quick_settings(data))
    table = Table(f"Beside the paper {EVIL}", f"Caption {EVIL}", ("loss", EVIL), ((EVIL, "1.0"),), ("loss",))
    bars = [MemoryBar(EVIL, "batch 64", 3_000_000), MemoryBar("naive", EVIL, 9_000_000)]
    out = folder / "report.html"
    size = write_report([plan.out], out, tables=[table], memory=bars, choices=FEW)
    assert size == out.stat().st_size < BUDGET
    return out


class Opened(OpenedPage):
    """A report."""

    def __init__(self, browser, file, **more):
        super().__init__(browser, file.as_uri(), **more)
        if more.get("java_script_enabled", True):
            self.page.wait_for_selector("html[data-ready=true]", timeout=120_000)


@pytest.fixture
def opened(browser, report):
    pages = []

    def one(**more):
        pages.append(Opened(browser, report, **more))
        return pages[-1]

    yield one
    for found in pages:
        found.context.close()


@pytest.fixture(scope="module")
def seen(browser, report):
    """The page as it is after opening, for tests that change nothing."""
    found = Opened(browser, report)
    yield found
    found.context.close()


def test_nothing_is_asked_for_but_the_page_and_nothing_goes_wrong(seen, report):
    assert [url for url in seen.asked if not url.startswith("data:")] == [report.as_uri()]
    assert seen.said == []
    assert seen.dialogs == []


def test_every_plot_has_points(seen):
    counts = seen.page.eval_on_selector_all(
        ".plot",
        """plots => plots.map(plot => [plot.dataset.figure || plot.dataset.plane || plot.dataset.confusion,
            plot.data.length, plot.querySelectorAll(".main-svg .point, .main-svg .hm image").length])""",
    )
    assert [name for name, *_ in counts] == ["g0-differences", "g0-curves", "a", "b", "a", "b", "memory"]
    assert all(traces and points for _, traces, points in counts)
    by_place = [points for *_, points in counts]
    assert by_place[0] == 5  # triplet, two controls, two floors
    assert by_place[1] == 4 * 2  # losses and controls, an epoch each; seeds are lines
    assert by_place[2] == by_place[3] == 32  # test images


def test_every_image_of_the_gallery_is_there(seen):
    widths = seen.page.eval_on_selector_all(".query img", "images => images.map(image => image.naturalWidth)")
    assert len(widths) == 2 * 3 * 3 * 9  # losses, kinds, queries, itself and its neighbors
    assert set(widths) == {12}


def test_no_button_sends_a_figure_away(seen):
    titles = seen.page.eval_on_selector_all(".modebar-btn", "found => found.map(one => one.dataset.title)")
    assert set(titles) == {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}


def test_right_and_wrong_differ_by_more_than_color(seen):
    found = seen.page.eval_on_selector_all(
        ".found li",
        """items => items.map(item => [item.className, item.querySelector(".mark").textContent,
            getComputedStyle(item.querySelector("img")).borderTopStyle, item.querySelector("img").alt])""",
    )
    assert {(name, mark, style) for name, mark, style, _ in found} == {
        ("right", "✓", "solid"),
        ("wrong", "✗", "dashed"),
    }
    assert all(f", {name}, similarity" in alt for name, _, _, alt in found)


def test_names_are_words_and_nothing_else(seen):
    page = seen.page
    assert page.locator("script").count() == 3
    assert page.locator("[onerror]").count() == 0
    assert page.locator("main b, svg image[href^='x']").count() == page.locator(".command b").count()
    labels = set(page.eval_on_selector_all(".query figcaption", "found => found.map(one => one.textContent)"))
    assert labels <= set(NASTY)
    ticks = page.eval_on_selector_all("[data-confusion=a] .ytick text", "found => found.map(one => one.textContent)")
    assert {tick.rstrip("…") for tick in ticks} == {name[:15] for name in NASTY}
    titles = page.eval_on_selector_all("#tables h3", "found => found.map(one => one.textContent)")
    assert titles == [f"Beside the paper {EVIL}"]
    assert "49" not in {label.split()[-2] for label in labels if "{{" in label}  # no template runs twice


def test_the_policy_stops_scripts_and_requests_that_slipped_in(opened):
    page = opened().page
    assert page.evaluate("fetch('data:text/plain,x').then(() => 'sent', () => 'stopped')") == "stopped"
    page.evaluate(
        """() => {
            const one = document.createElement('script');
            one.textContent = 'window.slipped = 1';
            document.body.append(one);
            document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.slipped = 2">');
        }"""
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.slipped") is None


def test_dark_follows_the_system_and_the_button(opened):
    page = opened(color_scheme="dark").page

    def colors():
        ink = page.evaluate("getComputedStyle(document.body).color")
        plots = page.eval_on_selector_all(".xtick text", "found => found.map(one => getComputedStyle(one).fill)")
        return ink, set(plots)

    dark = colors()
    assert dark[1] == {dark[0]}
    page.click("#theme")
    assert comes(lambda: (light := colors())[1] == {light[0]} != dark[1])
    assert page.get_attribute("#theme", "aria-pressed") == "false"
    page.emulate_media(color_scheme="light")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")  # it is heard of
    page.emulate_media(color_scheme="dark")
    assert comes(colors, dark) == dark


def test_tabs_are_moved_by_the_keyboard(opened):
    page = opened().page

    def shown():
        return page.eval_on_selector_all(".panel", "found => found.filter(one => !one.hidden).map(one => one.id)")

    assert shown() == ["g0-random"]
    page.focus("#g0-tab-random")
    page.keyboard.press("ArrowRight")
    assert shown() == ["g0-worst"]
    assert page.evaluate("document.activeElement.id") == "g0-tab-worst"
    page.keyboard.press("End")
    assert shown() == ["g0-best"]
    page.keyboard.press("ArrowRight")
    assert shown() == ["g0-random"]
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    assert shown() == ["g0-best"]
    assert page.get_attribute("#g0-tab-best", "aria-selected") == "true"
    assert page.eval_on_selector_all("[role=tab]", "found => found.filter(one => one.tabIndex === 0).length") == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "g0-best"


def test_measures_and_losses_are_chosen_by_the_keyboard(opened):
    page = opened().page
    plot = page.locator("[data-figure=g0-curves]")

    def drawn():
        return plot.evaluate("plot => [plot.layout.yaxis.title.text, ...new Set(plot.data.map(one => one.meta.name))]")

    assert drawn() == ["Validation Recall@1, %", "shadow", "triplet", "triplet_control", "double_shadow"]
    page.focus("input[value=recall_at_1]")
    page.keyboard.press("ArrowRight")
    assert comes(lambda: drawn()[0], "Training loss, in its own unit") == "Training loss, in its own unit"
    page.focus(".legend button[data-name=triplet]")
    page.keyboard.press("Space")
    left = ["shadow", "triplet_control", "double_shadow"]
    assert comes(lambda: drawn()[1:], left) == left
    assert page.get_attribute(".legend button[data-name=triplet]", "aria-pressed") == "false"
    page.keyboard.press("Space")
    assert comes(lambda: "triplet" in drawn())


def test_the_mean_is_that_of_the_journals(seen, report):
    import json

    folder = report.parent / "compare"
    lines = [json.loads((folder / f"shadow-{seed}" / "journal.jsonl").read_text().splitlines()[1]) for seed in (0, 1)]
    curve = seen.page.eval_on_selector(
        "[data-figure=g0-curves]",
        "plot => plot.data.find(one => one.meta.name == 'shadow' && one.meta.role == 'mean').y",
    )
    assert curve[1] == pytest.approx(50 * sum(line["recall_at_1"] for line in lines), abs=1e-3)


def test_two_runs_stand_side_by_side_by_choice(opened):
    page = opened().page

    def names():
        sides = page.eval_on_selector_all(
            ".panel:not([hidden]) .side:not([hidden])", "x => x.map(one => one.dataset.name)"
        )
        return sorted(sides), page.eval_on_selector_all("[data-heading]", "found => found.map(one => one.textContent)")

    assert names() == (["shadow", "triplet"], ["shadow", "triplet"] * 2)
    before = page.eval_on_selector("[data-plane=a]", "plot => plot.data[0].x")
    page.select_option("select[data-side=a]", "triplet")
    chosen = (["triplet"], ["triplet"] * 4)
    assert comes(names, chosen) == chosen

    def redrawn():
        after, other = (page.eval_on_selector(f"[data-plane={side}]", "plot => plot.data[0].x") for side in "ab")
        return before != after == other

    assert comes(redrawn)
    assert page.locator(".modebar-btn svg").count() == page.locator(".modebar-btn").count() > 0  # still drawn


def test_a_point_shows_its_image_and_is_ringed_in_both_planes(opened):
    page = opened().page
    point = page.locator("[data-plane=a] .scatterlayer .trace:first-child .point").first
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    page.wait_for_selector("#tip:not([hidden])")
    assert "data:image/webp" in page.eval_on_selector("#tip .image", "one => getComputedStyle(one).backgroundImage")
    words = page.text_content("#tip p")
    assert any(words.startswith(name) for name in NASTY)
    assert "nearest neighbor" in words

    def rings():
        return [page.eval_on_selector(f"[data-plane={side}]", "plot => plot.data[1].x.length") for side in "ab"]

    assert comes(rings, [1, 1]) == [1, 1]
    page.mouse.move(5, 5)
    page.wait_for_selector("#tip", state="hidden")


def test_paper_has_every_tab_and_no_buttons(opened):
    page = opened(color_scheme="dark", viewport={"width": 720, "height": 1000}).page

    def heights():
        return page.eval_on_selector_all(".plot .main-svg:first-child", "found => found.map(one => one.clientHeight)")

    before = heights()
    assert len(before) == 7
    assert page.locator(".panel:visible").count() == 1
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    width = "document.documentElement.scrollWidth"
    assert comes(lambda: page.evaluate(width), 720) == 720  # plots are drawn again
    assert comes(heights, before) == before
    assert page.locator(".modebar").count() > 0
    for gone in (".modebar", ".switch", ".tabs", ".chooser", ".measures", ".contents"):
        assert page.locator(f"{gone}:visible").count() == 0, gone
    assert page.locator(".panel:visible").count() == 3
    assert page.locator("details:not([open])").count() == 0
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.locator("details[open]").count() == 0


def test_without_javascript_the_numbers_are_there(opened):
    page = opened(java_script_enabled=False).page
    assert page.locator("noscript .note, .note").first.is_visible()
    tables = page.locator(".numbers[open] table:visible")
    titles = page.locator(".numbers[open] h5").all_text_contents()
    assert "Validation Recall@1, %, mean over seeds" in titles
    assert titles[-3:] == ["shadow", "triplet", "Bytes"]
    assert tables.count() >= len(titles)
    assert page.locator(".query img:visible").count() == 2 * 3 * 3 * 9
    assert page.locator(".plot:visible, select:visible, [role=tab]:visible, #theme:visible").count() == 0


@pytest.mark.parametrize("width", [390, 320, 800])
def test_the_page_never_scrolls_sideways(opened, width):
    page = opened(viewport={"width": width, "height": 800}).page
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_the_first_stop_of_the_keyboard_skips_to_the_results(opened):
    page = opened().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_contents_lead_to_sections(seen):
    places = seen.page.eval_on_selector_all(".contents a", "found => found.map(one => one.hash.slice(1))")
    assert places[:3] == ["g0", "g0-results", "g0-curves"]
    assert places[-3:] == ["tables", "memory", "environment"]
    assert all(seen.page.locator(f"[id='{place}']").count() == 1 for place in places)


def test_every_address_is_inside_the_page(report):
    text = report.read_text(encoding="utf-8").rpartition("<script>")[0]  # before plotly
    assert set(re.findall(r'(?:src|href)="(?!data:|#)([^"]*)"', text)) == set()
    assert "default-src 'none'" in html.unescape(text)
