"""The pure parts of the program that writes docs/reproduction.md."""

import io

import pandas as pd
import pytest
from PIL import Image

from docs import reproduction_page as pages
from harness.show.report import Cell, Column, Report, Section
from sweeps import reproduce_card


def frame(*spans, sweep="nano-interval"):
    """Finished runs that began and ended at these seconds."""
    rows = [
        {
            **{"sweep": sweep, "key": f"{sweep}{start}-{end}", "state": "completed", "steps": 10.0},
            **{"task": "pydocs", "model": "llama-nano-60m", "parameters": 45_000.0, "tokens": 128_000.0},
            **{"machine": "Testium 1", "began": _time(start), "ended": _time(end)},
        }
        for start, end in spans
    ]
    return pd.DataFrame(rows)


def _time(seconds):
    return pd.Timestamp(seconds, unit="s", tz="UTC").isoformat()


def table(*rows):
    columns = [Column("claim", "claim", "text"), Column("verdict", "verdict", "text")]
    cells = [[Cell(word) for word in row] for row in rows]
    notes = ("one", "two", "three")
    return Report("ledger", "all", [Section("p, nano", {}, columns, cells, notes=notes)])


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [(((0, 10),), 10), (((0, 10), (5, 20)), 20), (((0, 30), (5, 20), (100, 101)), 31)],
)
def test_pauses_do_not_count(spans, seconds):
    assert pages.elapsed(frame(*spans)) == seconds


def test_the_facts_name_the_machine_and_what_failed():
    runs = frame((0, 60), (0, 120))
    runs.loc[len(runs)] = {"sweep": "nano-interval", "key": "x", "state": "failed"}
    assert pages.facts(runs) == (
        "2 runs on Testium 1 took 2 min, pauses left out, with 1.5 at a time on average. Points without a "
        "completed run: 1 failed."
    )


def test_what_was_seen_is_what_the_card_reads(tmp_path, monkeypatch):
    runs = pd.concat([frame((0, 5), (5, 10)), frame((10, 12), sweep="nano-cifar")])
    place = tmp_path / "seen.csv"
    place.write_text(pages.seen(runs))
    monkeypatch.setattr(reproduce_card, "SEEN", place)
    assert reproduce_card.seen() == {"interval": 0.5, "cifar": 0.2}


def test_the_workloads_that_were_run_are_told():
    lines = pages.twins(frame((0, 1))).splitlines()
    assert len(lines) == 3 and lines[2] == "| c4, llama-60m | pydocs, llama-nano-60m | 45k | 10 | 128k |"


def test_rows_are_picked_by_a_word_and_sections_without_any_go():
    found = table(["a below b", "agrees"], ["c below d", "disagrees"])
    (section,) = pages.rows_with(found, "verdict", "disagrees").sections
    assert [row[0].text() for row in section.rows] == ["c below d"] and not section.notes
    assert not pages.rows_with(found, "verdict", "undecided").sections


def test_long_grids_and_footnotes_are_folded():
    short, long = (pages.readable(table(*[["a", "agrees"]] * count)) for count in (3, 30))
    assert "### ledger: all\n" in short and "#### p, nano\n" in short
    assert short.count("<details>") == 1 and "<summary>Footnotes</summary>\n\n- one" in short
    assert long.count("<details>") == 2 and "<summary>30 rows</summary>\n\n| claim" in long
    assert pages.without_title(short).startswith("\n#### p, nano")


def test_the_page_has_its_parts_in_order_and_includes_the_discussion():
    parts = dict.fromkeys(("facts", "twins", "first", "verdict", "contradicted", "ledger"), "")
    discussion = "# Title\n\nA word.\n\n## Small models\n\nMore.\n"
    text = pages.assembled(**parts, discussion=discussion, tables=["T"], pictures=["lr_curve"], cost=["C"])
    heads = [line for line in text.splitlines() if line.startswith(("# ", "## ", "### "))]
    assert heads == [
        "# The paper in miniature",
        "## What stands for what",
        "## The main result",
        "## What disagrees with the paper",
        "## Discussion",
        "### Small models",
        "## The other tables",
        "## Figures",
        "### lr curve",
        "## Every claim",
        "## What it cost",
    ]
    assert "![lr curve](reproduction/lr_curve.png)" in text and "# Title" not in text


def test_a_smaller_picture_is_the_same_picture():
    out = io.BytesIO()
    Image.effect_noise((200, 100), 60).convert("RGB").save(out, "PNG")
    small = pages.smaller(out.getvalue())
    assert len(small) < len(out.getvalue()) and Image.open(io.BytesIO(small)).size == (200, 100)
