"""docs/says.md has a line for whatever a table can say, and no line for what none says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "says.md").read_text(encoding="utf-8")
CELLS = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
TOLD = [word for cell in CELLS for word in re.findall(r"`([^`]+)`", cell)]
PARTS = re.compile(r"^(?:danger|answer|open|guard|status)_")
# Parts of sentences that say nothing by themselves.
PIECES = {
    *("answer_alone", "answer_title", "answer_chosen", "answer_chosen_by_search", "answer_settings"),
    *("answer_intervals", "answer_one_setting", "open_row", "status_head", "danger_edge", "danger_edge_add"),
}


def templates():
    """Every sentence by its kind, in one line and without the signs of formulas."""
    text = (ROOT / "harness" / "show" / "messages.txt").read_text(encoding="utf-8")
    found = re.findall(r"^(\w+): (.*(?:\n {4}.*)*)", text, re.MULTILINE)
    return {kind: re.sub(r"\s+", " ", words).replace("`", "") for kind, words in found}


def test_what_a_table_can_say_is_on_the_page():
    said = {kind: text for kind, text in templates().items() if PARTS.match(kind) and kind not in PIECES}
    assert [kind for kind, text in said.items() if not any(word in text for word in TOLD)] == []


def test_what_is_on_the_page_is_said():
    every = templates().values()
    assert [word for word in TOLD if not any(word in text for text in every)] == []
