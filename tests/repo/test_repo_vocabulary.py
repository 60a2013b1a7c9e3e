"""One vocabulary on all screens and pages: what is shown is collected, and other words for a thing are found.

Options, keys of files and fields of JSON keep their names: what stands between backticks is not looked at.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from docs.pages import without_parts
from htbench.harness.show.note import templates
from tests.helpers.architecture import PACKAGES, ROOT

# What is said, and the words that would mean the same. Other meanings of a word are left out in its pattern.
WORDS = {
    # floating-point, decimal and entry points, and those of geometry; and the file of a plan
    "run, setting": r"(?<!entry )(?<!floating-)(?<!decimal )(?<!stationary )\bpoints?\b(?!\.jsonl| to | at )",
    # the key of a sweep file
    "runs, settings": r"(?<!search\.)\btrials?\b|\bcandidates?\b",
    "dataset": r"\bdata sets?\b",
    # the paper's table of times is in its unit
    "ms/step": r"(?<!m)s/step(?!, (published|paper))|\bms per step|\bmilliseconds (per|a) step",
    # p is a hyperparameter
    "p-value": r"\bP-values?\b|\bp values?\b|\bgap [^()]*, p = ",
    "learning rate": r"\bstep sizes?\b",
    "checkpoint": r"\bcheck-points?\b|\bcheck points?\b",
    # the key of an optimizer's group
    "parameters": r"(?<!['.])\bparams\b(?!')",
}
# Two accuracies differ by points of a percentage: after a number, or as the unit of a gap.
UNIT = re.compile(
    r"\d points?\b|gap \(points\)|\bin (percentage )?points\b|\bpercentage points?\b|\boffset points\b"
)
FORBIDDEN = [
    "12 of {} points have a result",
    "unequal budget: 3 against 9 trials of muon",
    "the candidates of an objective",
    "a published data set",
    "12.5 ms per step",
    "0.02 s/step",
    "not told (gap 0.67 points, p = 0.86)",
    "a larger step size",
    "12k params",
]
ALLOWED = [
    "behind by .7 points, p-value 0.86",
    "search: `{trials: 9}` of each `point`",
    "search.trials=9 is more than 4 settings",
    "points to the report",
    "in points.jsonl",
    "p = 0.125",
]


def wrong(text: str) -> list[str]:
    """The words of a shown text that mean another one."""
    plain = UNIT.sub("", re.sub(r"`[^`]*`", "", text))
    return [match[0] for pattern in WORDS.values() for match in re.finditer(pattern, plain)]


# --- what is shown ---


def sentences() -> Iterator[tuple[str, str]]:
    """Of messages.txt, with its values left out: {points:run|runs} shows run or runs."""
    for kind, template in templates().items():
        yield kind, re.sub(r"\{\w+(?:[?:]([^{}]*))?\}", lambda found: f"{{{found[1] or ''}}}", template)


def literals() -> Iterator[tuple[str, str]]:
    """Words in strings of the code that are no docstrings: errors, labels of columns and axes, helps."""
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        labels = {id(node) for call in ast.walk(tree) for node in _label(call)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
                if " " in node.value.strip() or id(node) in labels:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def _label(node: ast.AST) -> list[ast.expr]:
    """What stands above a column of a table, or is counted."""
    called = getattr(node.func, "id", "") if isinstance(node, ast.Call) and node.args else ""
    if called == "counted":
        return node.args[1:]
    if called != "Column":
        return []
    named = [keyword.value for keyword in node.keywords if keyword.arg == "label"]
    return [*node.args[1:2], *named][:1] or node.args[:1]


def pages() -> Iterator[tuple[str, str]]:
    """The paragraphs that people wrote for users, without code and addresses."""
    cards = set(ROOT.glob("docs/zoo/*.md"))
    places = {ROOT / "README.md", ROOT / "harness/export/card.md.jinja", *ROOT.glob("docs/**/*.md")}
    for path in sorted(places - cards):
        text = without_parts(path.read_text(encoding="utf-8"))
        text = re.sub(r"```.*?```", _lines, text, flags=re.DOTALL)
        text = re.sub(r"`[^`]*`|\]\([^)]*\)", _lines, text)
        line = 1
        for paragraph in text.split("\n\n"):
            yield f"{path.relative_to(ROOT)}:{line}", " ".join(paragraph.split())
            line += paragraph.count("\n") + 2


def _lines(code: re.Match[str]) -> str:
    """As many line breaks as something had."""
    return "\n" * code[0].count("\n")


# --- the law ---


@pytest.mark.parametrize("text", FORBIDDEN)
def test_a_word_that_means_another_one_is_found(text):
    assert len(wrong(text)) == 1


@pytest.mark.parametrize("text", ALLOWED)
def test_other_meanings_are_none(text):
    assert wrong(text) == []


@pytest.mark.parametrize("shown", [sentences, literals, pages], ids=lambda shown: shown.__name__)
def test_every_screen_and_page_has_one_word_for_a_thing(shown):
    found = [f"{place}: {words}: {text.strip()[:120]}" for place, text in shown() if (words := wrong(text))]
    assert found == [], f"say: {', '.join(WORDS)}"


def test_a_p_of_a_test_is_called_p_value():
    tests = {kind: template for kind, template in templates().items() if "{p:.2g}" in template}
    assert [kind for kind, template in tests.items() if "p-value {p:.2g}" not in template] == []
