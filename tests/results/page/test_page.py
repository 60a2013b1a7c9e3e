"""The page as text: all is there, nothing is markup of its own or from outside; same store, same bytes."""

import html
import io
import os
import random
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from htbench.harness import cli
from htbench.harness.show.html import prose
from htbench.harness.store import Store
from htbench.harness.store.points import DROPPED
from htbench.results.compare.view import View
from htbench.results.figures import files
from htbench.results.figures.style import DRAWN_BY
from htbench.results.frames.load import load_rows
from htbench.results.page import command, overview, page
from htbench.results.tables import footnotes
from htbench.results.tables.answer import answers
from htbench.results.tables.outcome import judge_workload
from htbench.results.tables.registry import TABLES


def picture():
    """A picture of ours that is 1440 pixels wide and 200 high."""
    said, file = PngInfo(), io.BytesIO()
    said.add_text("Software", DRAWN_BY)
    Image.new("RGB", (1440, 200)).save(file, "PNG", pnginfo=said)
    return file.getvalue()


PICTURE = picture()


class Reader(HTMLParser):
    """The tags of a page, its text outside of scripts, and the text of each script."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.inside, self.blocks = [], [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag in ("script", "style"):
            self.blocks.append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside in ("script", "style"):
            self.blocks[-1] += data
        else:
            self.text.append(data)


def written(store):
    return page.write(View(load_rows(store), store=store), {"loss": (PICTURE, "Loss against steps.")})


@pytest.fixture(scope="module")
def demo(_stores):
    """The page of the demo, with its store and frame."""
    store = Store(_stores["demo"])
    return SimpleNamespace(store=store, frame=load_rows(store), text=written(store))


@pytest.fixture(scope="module")
def mixed_page(_stores):
    return written(Store(_stores["mixed"]))


def test_a_page_has_its_parts_and_links_lead_to_them(mixed_page):
    reader = Reader(mixed_page)
    parts = [attrs["id"] for tag, attrs in reader.tags if tag == "section"]
    assert parts == ["answer", "figures", "tables", "cost", "method"]
    ids = {attrs["id"] for _, attrs in reader.tags if "id" in attrs}
    links = {attrs["href"] for tag, attrs in reader.tags if tag == "a"}
    assert {f"#{part}" for part in parts} | {"#figure-loss"} <= links
    assert {"#table-main_result", "#table-lr_grid", "#table-p_grid"} <= links
    assert {link[1:] for link in links} <= ids and all(link[0] == "#" for link in links)
    assert [tag for tag, _ in reader.tags].count("h1") == 1
    images = [(attrs["width"], attrs["alt"]) for tag, attrs in reader.tags if tag == "img"]
    assert images == [("720", "Loss against steps.")]


def test_the_answer_is_what_a_screen_shows_with_its_numbers_in_words(demo):
    text = html.unescape(demo.text).partition('id="figures"')[0].replace("<strong>", "")
    for answer in answers(demo.frame, demo.store):
        text = text[text.index(str(answer.verdict)) :]
        for place in answer.places:
            row = text[text.index(f"<td>{place.name}") :].partition("</tr>")[0]
            gap = "" if place.gap is None else f"{place.gap:.{answer.metric.digits}f}"
            assert place.value.text() in row and gap in row
        for note in (*answer.dangers, *answer.open, *answer.footer):
            assert html.unescape(prose(note)) in text


def test_what_protects_is_not_folded(_stores):
    store = Store(_stores["mixed"])
    frame = load_rows(store)
    shown = html.unescape(re.sub(r"<details>.*?</details>", "", written(store), flags=re.DOTALL))
    sections = [own for make in TABLES.values() for own in make(View(frame, store=store)).sections]
    dangers = [note for own in sections for note in own.dangers()]
    assert len({note.kind for note in dangers}) > 5
    assert [str(note) for note in dangers if html.unescape(prose(note)) not in shown] == []


def test_what_holds_for_all_sections_of_a_table_is_said_once(demo):
    main, _, rest = html.unescape(demo.text).partition('id="table-lr_grid"')
    assert len(TABLES["main_result"](View(demo.frame)).sections) > 1
    assert main.count(str(footnotes.SPREAD)) == 1
    assert str(footnotes.SPREAD) in rest.partition('id="method"')[2]


def test_nothing_comes_from_outside(mixed_page):
    for tag, attrs in Reader(mixed_page).tags:
        assert not attrs.keys() & {"style", "onclick", "onload", "action"}, tag
        assert attrs.get("src", "data:").startswith("data:") and attrs.get("href", "#")[0] == "#"
    policy = re.search(r'Security-Policy" content="([^"]+)"', mixed_page).group(1)
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


def test_the_policy_names_the_style_and_there_is_no_script(mixed_page):
    reader = Reader(mixed_page)
    (style,) = reader.blocks
    assert page.make_policy(style) in html.unescape(mixed_page) and "script" not in page.make_policy(style)
    assert "script" not in {tag for tag, _ in reader.tags}


def test_hostile_strings_stay_text(hostile_store, hostile):
    text = written(hostile_store)
    assert text.isascii()
    reader = Reader(text)
    assert "script" not in {tag for tag, _ in reader.tags}
    assert not [attrs for tag, attrs in reader.tags if "onerror" in attrs or attrs.get("src") == "x"]
    assert "".join(reader.text).count("</script><script>alert(1)</script><img src=x onerror=alert(2)>") > 3


def test_same_store_same_bytes_in_any_place_and_order(demo, demo_copy, monkeypatch):
    (demo_copy.root / "index.jsonl").unlink(missing_ok=True)
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda *words: random.sample(found := real(*words), len(found)))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert written(demo_copy) == demo.text


def test_the_command_writes_the_page_and_its_figures(demo_copy, capsys, monkeypatch):
    monkeypatch.setattr(files, "render", lambda *_: {"png": PICTURE, "pdf": DRAWN_BY.encode()})
    assert cli.main(["report", "--root", str(demo_copy.root), "--sweep", "demo-digits"]) == 0
    out = demo_copy.root / "report.html"
    assert capsys.readouterr().out.startswith(f"{out}: ") and "data:image/png;base64,iVBO" in out.read_text()
    assert (demo_copy.root / "figures" / "demo-digits" / "loss.png").exists()
    assert "demo-pydocs" not in out.read_text()


def test_a_page_of_many_workloads_has_no_pictures_and_says_where_they_are(demo_copy, capsys, monkeypatch):
    """Each takes seconds to draw: ten thousand runs of 175 workloads took hours."""
    monkeypatch.setattr(command, "MOST_WORKLOADS", 1)
    monkeypatch.setattr(files, "render", lambda *_: pytest.fail("drawn"))
    assert cli.main(["report", "--root", str(demo_copy.root)]) == 0
    text = html.unescape((demo_copy.root / "report.html").read_text())
    assert "2 workloads have more pictures than a page holds." in text and "data:image" not in text
    assert not (demo_copy.root / "figures").exists() and 'id="table-lr_grid"' in text


def test_a_page_asks_the_judge_once_for_each_workload(demo, monkeypatch):
    judged = []
    judge = "htbench.results.tables.answer.judge_workload"
    monkeypatch.setattr(judge, lambda *words: judged.append(1) or judge_workload(*words))
    assert written(demo.store) == demo.text
    assert len(judged) == len(View(demo.frame).workloads)


@pytest.mark.parametrize("name", ["page.html", "figures/loss.png"])
def test_the_command_replaces_its_own_files_only(demo_copy, tmp_path, capsys, monkeypatch, name):
    monkeypatch.setattr(files, "render", lambda *_: {"png": PICTURE, "pdf": DRAWN_BY.encode()})
    out = tmp_path / "mine" / "page.html"
    words = ["report", "--root", str(demo_copy.root), "--out", str(out)]
    theirs = out.parent / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("<html>theirs</html>")
    assert cli.main(words) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and str(theirs) in told
    assert [path.read_text() for path in out.parent.rglob("*") if path.is_file()] == ["<html>theirs</html>"]
    theirs.unlink()
    assert [cli.main(words) for _ in range(2)] == [0, 0]


def test_an_empty_store_and_an_unknown_sweep_are_usage_errors(tmp_path, demo_copy, capsys):
    assert cli.main(["report", "--root", str(tmp_path / "none")]) == 2
    assert cli.main(["report", "--root", str(demo_copy.root), "--sweep", "demo-pydoc"]) == 2
    assert "did you mean 'demo-pydocs'" in capsys.readouterr().err
    assert not (demo_copy.root / "report.html").exists()


def test_a_store_in_which_nothing_has_run_has_a_page(bench):
    bench.add("digits", "muon", 0.1, state="waiting")
    assert "0 of 1 run ended" in written(bench.write())


def test_replicas_of_a_former_winner_are_of_no_plan(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.9, 0.4))
    bench.add("digits", "muon", 0.02, stage=DROPPED, seed=1000, metrics=make.image(0.9, 0.4))
    assert overview.scope(load_rows(bench.write()))["runs"] == 1
