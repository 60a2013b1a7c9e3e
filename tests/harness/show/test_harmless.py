"""Nothing that a store holds steers a terminal or is computed by a spreadsheet."""

import csv
import functools
import io
import json
import re
import sys
import unicodedata

import pytest

from htbench.harness.show import harmless
from htbench.harness.show.latex import escape
from htbench.harness.store import Store
from htbench.harness.store.points import REPLICATE, SEARCH, Point, sweep_folder, write_points
from htbench.harness.system.seal import sealed
from tests.helpers import stored_runs
from tests.helpers.command import Htbench

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\r"
TURNED = "\u202egnp.exe\u200b\u2066"
HOSTILE = (
    f'=HYPERLINK("http://x") {ESCAPES}{TURNED} <img src=x onerror=alert(1)> [a](http://x) `|$\\frac$ &_%'
)


def hidden(text):
    """The characters in it that a terminal or a reader would obey."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - set("\t\n")


def test_every_hidden_character_is_shown():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    kept = hidden(harmless.visible(every))
    # Signs of some scripts, which stand before or beside others and hide nothing.
    assert {unicodedata.name(c).split()[0] for c in kept} <= {"ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN"}
    assert harmless.visible("a\x1b[0m\u202eb\udc80\n\t") == "a\\x1b[0m\\u202eb\\udc80\n\t"
    assert harmless.in_a_line("a\nb\tc") == "a\\nb\\tc"
    assert harmless.visible("± – … é 漢 🙂") == "± – … é 漢 🙂"


@pytest.mark.parametrize("text", ["=1+1", "+A1", "-A1", "@SUM(A1)", "  =1", "＝1", "-1+1", "--", "=", "+1 %"])
def test_no_word_is_a_formula(text):
    cell = harmless.csv_cell(text)
    assert cell == f"'{text}" or len(text) == 1


@pytest.mark.parametrize("text", ["-1", "+1.5e-3", "-inf", "1", "adamw", "", "-", "a=b", "nan"])
def test_numbers_and_names_are_left_alone(text):
    assert harmless.csv_cell(text) == text


@pytest.mark.parametrize("text", ["\t=1", "\r=1", "\n=1"])
def test_a_formula_behind_a_control_is_none(text):
    assert harmless.csv_cell(text).startswith("\\")


def test_latex_and_markdown_show_what_they_would_obey():
    assert escape("a\\input{x}\n\x1b") == r"a\textbackslash{}input\{x\}\textbackslash{}n\textbackslash{}x1b"
    assert harmless.markdown("<b> a < b [x](y) ![x][y] `c|d`") == r"\<b> a < b [x]\(y) ![x]\[y] `c|d`"
    assert harmless.markdown_cell("a|`b`") == r"a\|\`b\`"


def test_streams_show_what_a_terminal_would_obey(tmp_path):
    """Also errors of any kind, and of commands that write no table."""
    run = Htbench(tmp_path)
    for words in (
        ["zoo", ESCAPES],
        ["sweep", "plan", f"{TURNED}.yaml"],
        ["runs", "ls", "--sweep", HOSTILE],
        [HOSTILE],
    ):
        done = run(*words)
        assert done.returncode == 2 and not hidden(done.stdout + done.stderr)
        assert len(done.stderr.splitlines()) == 1 or words[0] == "zoo"


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A store that was imported from one whose words are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    theirs, root = folder / "theirs", folder / "store"
    points = []
    for block, lr in (("a", 0.1), ("b", 0.2)):
        for seed, stage in ((0, SEARCH), (1, REPLICATE), (2, REPLICATE)):
            key = stored_runs.put(theirs, lr=lr, seed=seed, accuracy=0.9 - lr / 10 - seed / 100)
            given = stored_runs.TINY | {"optimizer.lr": lr, "seed": seed, "data_fingerprint": "f" * 16}
            points.append(Point("s", f"{block}{HOSTILE}", stage, key, given))
    stored_runs.leave(theirs, "error", lr=0.3)
    sweep_folder(theirs, "s").mkdir(parents=True)
    write_points(theirs, "s", points)
    for path in theirs.glob("runs/*/*/record.json"):
        record = json.loads(path.read_text())
        record["environment"] |= dict.fromkeys(("host", "cpu", "torch", "platform", "code"), HOSTILE)
        path.write_text(json.dumps(sealed(record)))
    for path in theirs.glob("runs/*/*/attempts/*.json"):
        path.write_text(path.read_text().replace('"because"', json.dumps(HOSTILE)))
        (path.parents[1] / "log.txt").write_text(HOSTILE)
    run = Htbench(root)
    done = run("runs", "import", theirs)
    assert done.returncode == 0 and not hidden(done.stdout + done.stderr), done.stderr
    assert len(Store(root).records([one.key for one in points])) == 6
    return functools.cache(run)  # two tests look at one table


COMMANDS = [
    ["runs", "ls", "--all"],
    ["runs", "ls", "--json"],
    ["doctor"],
    ["sweep", "status", "s"],
    ["ledger"],
    *(["table", "--source", "runs", "--format", name] for name in ("md", "csv", "latex", "html", "json")),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_was_imported_steers_no_terminal(imported, words):
    done = imported(*words)
    assert done.returncode in (0, 1, 2), done.stderr
    assert not hidden(done.stdout + done.stderr)
    assert (
        "<img" not in re.sub(r"\\<|&lt;", "", done.stdout)
        or "--json" in words
        or words[-1] in ("json", "csv", "latex", "--all")
    )


def cells(text):
    return [cell for row in csv.reader(io.StringIO(text)) for cell in row]


def harmless_csv(text):
    return all(harmless.csv_cell(cell) == cell for cell in cells(text))


def test_no_spreadsheet_computes_what_was_imported(imported):
    done = imported("table", "--source", "runs", "--format", "csv")
    assert done.returncode == 0 and "HYPERLINK" in done.stdout and harmless_csv(done.stdout)


def test_pages_and_figures_show_what_was_imported(imported, tmp_path):
    for words in (
        ["report", "--out", tmp_path / "report.html"],
        ["figure", "--source", "runs", "--out", tmp_path / "figures"],
    ):
        done = imported(*words)
        assert done.returncode == 0 and not hidden(done.stdout + done.stderr), done.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in written} >= {".html", ".csv", ".png"}
    for path in written:
        assert path.name.isprintable() and path.name.isascii()
        if path.suffix in (".html", ".csv"):
            assert not hidden(path.read_text())
        assert path.suffix != ".csv" or harmless_csv(path.read_text())
        assert path.suffix != ".html" or "<img src=x" not in path.read_text()
