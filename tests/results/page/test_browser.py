"""The page in a real Chromium, from a file: what people click works, and nothing is asked of the network."""

import re
import shutil
from types import SimpleNamespace

import pytest

from docs import reproduction_records as records
from docs.reproduction_page import LADDER
from htbench.harness import cli
from htbench.results.frames.load import load
from htbench.results.page.page import write

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM, reason="tests/browser/run installs Chromium and runs this"),
]
WIDTHS = (1280, 400)


@pytest.fixture(scope="module")
def browser():
    driver = pytest.importorskip("playwright.sync_api")
    with driver.sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.fixture(scope="module")
def file(_stores, tmp_path_factory):
    """The report of the demo, with its figures, as the command writes it."""
    out = tmp_path_factory.mktemp("report") / "report.html"
    assert cli.main(["report", "--root", str(_stores["demo"]), "--out", str(out)]) == 0
    return out


@pytest.fixture
def visit(browser):
    """Open a file; `said` gets all that the page says or asks for, which must stay empty."""
    contexts, said = [], []

    def open_page(file, width=1280, **options):
        context = browser.new_context(
            viewport={"width": width, "height": 800}, offline=True, reduced_motion="reduce", **options
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)  # on a busy machine, too
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message) or dialog.dismiss())
        page.on("request", lambda request: _note(said, request.url, file))
        page.goto(file.as_uri())
        return page

    yield SimpleNamespace(page=open_page, said=said)
    for context in contexts:
        context.close()
    assert said == []


def _note(said, url, file):
    if not url.startswith("data:") and url.partition("#")[0] != file.as_uri():
        said.append(url)


def first_table(page):
    return page.locator("#tables .wide table").first


def column(page, head):
    names = first_table(page).locator("thead th").all_inner_texts()
    place = [name.strip() for name in names].index(head) + 1
    return first_table(page).locator(f"tbody tr:visible td:nth-child({place})").all_inner_texts()


@pytest.mark.short
def test_it_opens_in_silence_with_its_figures(visit, file):
    page = visit.page(file)
    assert page.title() == "htbench report"
    images = page.locator("#figures img")
    assert images.count() >= 4
    assert all(images.nth(i).evaluate("image => image.naturalWidth > 100") for i in range(images.count()))


def test_a_head_sorts_by_number_and_back(visit, file):
    page = visit.page(file)
    before = column(page, "val accuracy (%)")
    head = first_table(page).get_by_role("button", name="val accuracy (%)")
    orders = []
    for _ in range(3):
        head.click()
        orders.append(column(page, "val accuracy (%)"))
    numbers = [float(text.split()[0]) for text in orders[0]]
    assert numbers == sorted(numbers) and orders[1] == orders[0][::-1] and orders[2] == before
    head.click()
    assert first_table(page).locator("th[aria-sort=ascending]").count() == 1


def test_a_filter_keeps_the_rows_with_its_words(visit, tmp_path):
    store = records.unpacked(tmp_path / "store", ["ladder-s1", "ladder-s1-others"], LADDER)  # of 16 rows
    assert cli.main(["report", "--root", str(store.root), "--out", str(tmp_path / "report.html")]) == 0
    page = visit.page(tmp_path / "report.html")
    page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
    tools = page.locator("main .tools").filter(has=page.get_by_label("Filter")).first
    rows = tools.locator("xpath=following-sibling::*[1]").locator("tbody tr:visible")
    total = rows.count()
    word = rows.last.locator("td").first.inner_text()
    tools.get_by_label("Filter").fill(word.upper())
    shown = rows.all_inner_texts()
    assert 0 < len(shown) < total and all(word in row for row in shown)
    assert tools.locator("output").inner_text() == f"{len(shown)} of {total} rows"
    tools.get_by_label("Filter").fill("")
    assert rows.count() == total


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scripts", [True, False])
def test_the_verdict_is_the_first_thing_to_see(visit, file, width, scripts):
    page = visit.page(file, width, java_script_enabled=scripts)
    verdict = page.locator(".verdict").first
    assert verdict.bounding_box()["y"] < 200
    assert page.locator(".forest tbody tr").first.bounding_box()["y"] < 300
    assert page.locator("nav a").first.is_visible() == (width > 1000)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_forest_plot_has_its_numbers_in_words(visit, file, width):
    page = visit.page(file, width)
    row = page.locator(".forest tbody tr:has(circle):has(line:not([class]))").first
    mark, line = (row.locator(one).bounding_box() for one in ("circle", "line:not([class])"))
    gap, low, high = map(float, re.findall(r"[+-]?[\d.]+", row.locator("td").last.inner_text()))
    middle = mark["x"] + mark["width"] / 2
    assert low <= gap <= high and line["x"] <= middle <= line["x"] + line["width"]
    share = (middle - line["x"]) / line["width"]
    assert share == pytest.approx((gap - low) / (high - low), abs=0.06)  # the numbers are rounded


@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_column_stays_while_a_table_scrolls(visit, file, width):
    page = visit.page(file, width)
    box = page.locator("#tables .wide").first
    cells = [box.locator(one).first for one in ("tbody td:nth-child(1)", "thead th:nth-child(1)")]
    moving = box.locator("tbody td:nth-child(2)").first
    before = [cell.bounding_box()["x"] for cell in [*cells, moving]]
    box.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("box => box.scrollLeft > 30", arg=box.element_handle())
    *still, moved = (cell.bounding_box()["x"] for cell in [*cells, moving])
    assert still == pytest.approx(before[:2], abs=1) and moved < before[2] - 30


def test_notes_are_folded_and_printed(visit, file):
    page = visit.page(file, java_script_enabled=False)
    notes = page.locator("#tables .notes").first
    assert not notes.is_visible()
    page.locator("#tables summary").first.click()
    assert notes.is_visible()
    page.locator("#tables summary").first.click()
    page.emulate_media(media="print")
    assert notes.is_visible()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scripts", [True, False])
def test_the_page_does_not_scroll_sideways(visit, file, width, scripts):
    page = visit.page(file, width, java_script_enabled=scripts)
    assert page.locator("main").bounding_box()["width"] <= width
    assert page.locator("html").evaluate("page => page.scrollWidth") <= width


def test_without_scripts_tables_and_figures_are_readable(visit, file):
    page = visit.page(file, java_script_enabled=False)
    assert page.locator("noscript").first.inner_text().startswith("Without JavaScript")
    assert column(page, "optimizer") == ["adamw", "sgdm", "muon", "htmuon"]
    assert page.locator("#figure-loss img").is_visible()
    assert page.locator("button:visible, input:visible").count() == 0


@pytest.mark.parametrize("scripts", [True, False])
def test_a_mark_opens_its_note(visit, file, scripts):
    page = visit.page(file, java_script_enabled=scripts)
    mark = page.locator("#tables td sup a").first
    note = page.locator(mark.get_attribute("href"))
    assert not note.is_visible()
    mark.click()
    assert note.is_visible() and note.inner_text() == mark.inner_text()


def test_print_has_neither_contents_nor_controls(visit, file):
    page = visit.page(file)
    page.emulate_media(media="print")
    assert page.locator("nav:visible, .tools:visible").count() == 0
    assert first_table(page).is_visible()


def test_nothing_is_cut_on_paper(visit, file):
    portrait, landscape, height = 680, 1009, 1009  # pixels of A4 within its margins
    page = visit.page(file, landscape)
    page.emulate_media(media="print")
    for width, things in ((landscape, ".wide table"), (portrait, "figure, .forest")):
        page.set_viewport_size({"width": width, "height": height})
        boxes = [one.bounding_box() for one in page.locator(things).all()]
        assert boxes and max(box["x"] + box["width"] for box in boxes) <= width + 1, things
    assert all(box["height"] < height for box in boxes)
    assert page.locator("figure").first.evaluate("one => getComputedStyle(one).breakInside") == "avoid"


COLOURS = """one => {
  let behind = one;
  const colour = () => getComputedStyle(behind).backgroundColor;
  while (colour() === "rgba(0, 0, 0, 0)") behind = behind.parentElement || document.body;
  return [getComputedStyle(one).color, colour()];
}"""


def contrast(colours):
    """Of two colours as "rgb(1, 2, 3)". Source: WCAG 2.1."""

    def luminance(colour):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted(map(luminance, colours))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_are_legible(visit, file, scheme):
    page = visit.page(file, color_scheme=scheme)
    background = page.locator("body").evaluate("one => getComputedStyle(one).backgroundColor")
    assert (contrast([background, "rgb(255, 255, 255)"]) > 10) == (scheme == "dark")
    for what in (
        "h1",
        ".scope",
        ".workload",
        ".verdict",
        ".lead th",
        ".forest td",
        ".footer",
        "#figures figcaption",
        "nav a",
        "#tables thead th",
        "#tables td",
        "main summary",
        "dt",
    ):
        assert contrast(page.locator(what).first.evaluate(COLOURS)) >= 4.5, what
    plate = page.locator("figure img").first.evaluate("one => getComputedStyle(one).backgroundColor")
    assert plate == "rgb(255, 255, 255)"


def test_the_keyboard_reaches_all_and_shows_where_it_is(visit, file):
    page = visit.page(file)
    wanted = page.evaluate(
        """() => [...document.querySelectorAll("a, button, input, summary, [tabindex]")]
             .filter((one) => one.checkVisibility()).length"""
    )
    seen = []
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                """() => {
              const one = document.activeElement, style = getComputedStyle(one);
              one.reached = one.reached || one !== document.body;
              const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
              return one === document.body || outlined;
            }"""
            )
        )
    assert all(seen)
    assert (
        page.evaluate(
            """() => [...document.querySelectorAll("a, button, input, summary, [tabindex]")]
             .filter((one) => one.checkVisibility() && !one.reached).map((one) => one.outerHTML)"""
        )
        == []
    )


def test_hostile_strings_run_nowhere(visit, hostile_store, hostile, tmp_path):
    file = tmp_path / "hostile.html"
    file.write_text(write(hostile_store, load(hostile_store), {}))
    page = visit.page(file)
    for fold in page.locator("main details").all():
        fold.locator("summary").click()
    assert hostile[:60] in page.locator("main").inner_text()
    assert page.locator("img").count() == 0
