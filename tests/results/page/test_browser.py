"""The page in a real Chromium, from a file: what people click works, and nothing is asked of the network."""

import shutil
from types import SimpleNamespace

import pytest

from harness import cli
from harness.store import Store
from results.frames.load import load
from results.page.page import write

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM, reason="tests/browser/run installs Chromium and runs this"),
]
WIDTHS = (1280, 400)
BLANK = "c => !c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(x => x)"


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


def open_first(page):
    first_table(page).locator("button.open").first.click()
    page.locator("#run canvas").wait_for()
    return page.locator("#run")


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


def test_a_filter_keeps_the_rows_with_its_words(visit, file):
    page = visit.page(file)
    tools = page.locator("#tables .tools").first
    tools.get_by_label("Filter").fill("MUON")
    assert column(page, "optimizer") == ["muon", "htmuon"]
    assert tools.locator("output").inner_text() == "2 of 4 rows"
    tools.get_by_label("Filter").fill("")
    assert len(column(page, "optimizer")) == 4


def is_drawn(page, dialog):
    """Whether the chart is drawn soon: uPlot draws after the click has been answered."""
    for _ in range(200):
        canvas = dialog.locator("canvas")
        if canvas.count() and not canvas.evaluate(BLANK):
            return True
        page.wait_for_timeout(50)
    return False


def test_a_click_on_a_cell_opens_its_runs(visit, file):
    page = visit.page(file)
    dialog = open_first(page)
    assert "adamw" in dialog.locator("h2").inner_text()
    assert is_drawn(page, dialog)
    runs = dialog.locator("details")
    assert runs.count() == 3 and "seed 1" in runs.first.inner_text()
    runs.first.locator("summary").click()
    runs.first.get_by_text("optimizer.lr").first.wait_for()  # it is filled when it has opened
    shown = runs.first.inner_text()
    for words in ("Testium 1", "0.003", "completed", "There is no log."):
        assert words in shown
    dialog.get_by_label("Show").select_option("val")
    assert is_drawn(page, dialog)
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_runs_stay_in_the_chart_to_be_compared(visit, file):
    page = visit.page(file)
    dialog = open_first(page)
    assert dialog.locator(".u-series").count() == 1 + 3
    dialog.get_by_label("Keep in the chart").check()
    dialog.get_by_role("button", name="Close").click()
    first_table(page).locator("tbody tr").nth(2).locator("button.open").first.click()
    dialog.locator("canvas").wait_for()
    assert dialog.locator(".u-series").count() == 1 + 6
    assert dialog.locator("details").count() == 3


def test_all_curves_of_a_table_have_the_colours_of_the_figures(visit, file):
    page = visit.page(file)
    page.get_by_role("button", name="Curves of all rows").first.click()
    page.locator("#run canvas").wait_for()
    assert page.locator("#run .u-series").count() == 1 + 4 * 3
    colours = page.evaluate("DATA.styles")
    assert len({one["colour"] for one in colours.values()}) == 4 and colours["htmuon"]["colour"] == "#d55e00"


def test_the_keyboard_is_enough(visit, file):
    page = visit.page(file)
    button = first_table(page).locator("button.open").first
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator("#run").is_visible()
    page.keyboard.press("Escape")
    assert button.evaluate("button => document.activeElement === button")


def test_an_address_opens_a_run(visit, file):
    page = visit.page(file)
    key = page.evaluate("DATA.runs[5].key")
    page.goto(f"{file.as_uri()}#run-{key}")
    page.locator("#run canvas").wait_for()
    assert key in page.locator("#run details").inner_text()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scripts", [True, False])
def test_the_page_does_not_scroll_sideways(visit, file, width, scripts):
    page = visit.page(file, width, java_script_enabled=scripts)
    assert page.locator("main").bounding_box()["width"] <= width
    assert page.locator("html").evaluate("page => page.scrollWidth") <= width
    if scripts:
        assert page.locator("nav details").evaluate("list => list.open") == (width > 1000)
        dialog = open_first(page)
        assert dialog.evaluate("box => box.scrollWidth <= box.clientWidth")


def test_without_scripts_tables_and_figures_are_readable(visit, file):
    page = visit.page(file, java_script_enabled=False)
    assert page.locator("noscript").first.inner_text().startswith("Without JavaScript")
    assert column(page, "optimizer") == ["adamw", "sgdm", "muon", "htmuon"]
    assert page.locator("#figure-loss img").is_visible()
    assert page.locator("button:visible, input:visible, .script:visible").count() == 0


def test_print_has_neither_contents_nor_controls(visit, file):
    page = visit.page(file)
    page.emulate_media(media="print")
    assert page.locator("nav:visible, .tools:visible").count() == 0
    assert first_table(page).is_visible()


def test_hostile_strings_run_nowhere(visit, hostile_store, hostile, tmp_path):
    file = tmp_path / "hostile.html"
    file.write_text(write(hostile_store, load(hostile_store), {}))
    page = visit.page(file)
    page.get_by_role("button", name="Curves of all rows").first.click()
    for run in page.locator("#run details").all():
        run.locator("summary").click()
    page.locator("#run .body").filter(has_text=hostile[:60]).wait_for()  # each is filled when it has opened
    assert hostile[:60] in page.locator("#run .body").inner_text()
    assert page.locator("img").count() == 0


def test_a_mixed_store_opens_every_cell(visit, _stores, tmp_path):
    store = Store(_stores["mixed"])
    file = tmp_path / "mixed.html"
    file.write_text(write(store, load(store), {}))
    page = visit.page(file)
    opened = page.evaluate(
        """() => [...document.querySelectorAll("button.open")].map((button) => {
             button.click();
             document.querySelectorAll("#run details").forEach((one) => { one.open = true; });
             return dialog.open && document.querySelectorAll("#run details").length;
           })"""
    )
    assert len(opened) > 20 and all(opened)
