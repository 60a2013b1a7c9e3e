"""The answers that README.md begins with, from compact records: the ladder drawn, the demo as a screen.

    python -m docs.readme_page                 whether README.md and the picture are what the records say
    python -m docs.readme_page --write         makes them so
    python -m docs.readme_page --root STORE    whether a demo has ended in a store as README.md tells

Another machine has other last digits and other times. What must be the same there: workloads, rows, what was
searched, the number of seeds, which rows the best one beats, and that no setting lies at an edge.
"""

import argparse
import io
import statistics
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure as Canvas
from PIL import Image

from docs import reproduction_records as records
from docs import split_section
from docs.pages import screen
from docs.reproduction_page import LADDER
from docs.reproduction_records import DEMO
from htbench.harness import cli
from htbench.harness.errors import UsageError
from htbench.harness.store import Store
from htbench.results.compare.judge import Kind
from htbench.results.figures.draw import use_look
from htbench.results.figures.style import GREY, optimizer_style
from htbench.results.frames.load import load_rows
from htbench.results.tables.answer import Answer, Place, answers

ROOT = Path(__file__).parents[1]
README, PICTURE = ROOT / "README.md", ROOT / "docs" / "readme" / "answer.png"
BEGIN, END = "<!-- by docs/readme_page.py -->", "<!-- end -->"
SHOWN = DEMO[0]  # whose screen stands below the picture
DRAWN = ("ladder-s1", "ladder-s2", "ladder-s3")  # those that have records
# Those that say what Muon's gain is made of.
SPLIT = ("ladder-split-s1", "ladder-split-s2", "ladder-s2", "ladder-split-s3", "ladder-s3")
_PARTS = {
    "rates of its own for the matrices": 0,
    "Muon's map": 1,
    "HTMuon's p": 2,
}  # of the primary endpoints
_LINE = 118  # characters of a line
_DRAWN = "Description"  # the entry of the PNG that says what was drawn: pixels depend on matplotlib's version


def main(given: Sequence[str] | None = None) -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(prog="python -m docs.readme_page", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write README.md and its picture")
    parser.add_argument("--root", type=Path, metavar="STORE", help="compare the demo in a store with them")
    args = parser.parse_args(given)
    return cli.carry_out(lambda: _compare(args, parser.prog))


def _compare(args: argparse.Namespace, program: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        if args.root:
            found = differs(records.unpacked(Path(folder), DEMO), Store(args.root))
        else:
            there = set(records.sweeps(LADDER))
            shown = [name for name in DRAWN if name in there]
            store = records.unpacked(Path(folder), shown, LADDER)
            answered = _answers(store, shown)
            parts = gain_in_parts(Path(folder) / "split")
            if args.write:
                _write(answered, parts)
            found = stale(answered, parts)
    if found:
        print(f"{program}: {found}", file=sys.stderr)
    return 1 if found else 0


def _write(found: Sequence[Answer], parts: str) -> None:
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(png(found))
    before, _, after = _parts(README.read_text(encoding="utf-8"))
    README.write_text(f"{before}{BEGIN}\n{made(found, parts)}\n{END}{after}", encoding="utf-8")


def stale(found: Sequence[Answer], parts: str) -> str:
    """What is not as the records say, as a sentence; empty: nothing.

    Args:
        found: the answers of the ladder.
        parts: what Muon's gain is made of, as `gain_in_parts` says it.
    """
    again = "python -m docs.readme_page --write makes it so."
    if _parts(README.read_text(encoding="utf-8"))[1] != made(found, parts):
        return f"The answers in README.md are not what the records say; {again}"
    with Image.open(PICTURE) as picture:
        if picture.info.get(_DRAWN) != drawn(found):
            return f"{PICTURE.relative_to(ROOT)} does not show what the records of the ladder say; {again}"
    return ""


def differs(store: Store, other: Store) -> str:
    """In what a demo has ended otherwise than README.md tells, as a sentence; empty: nothing."""
    ours, theirs = ({one.workload: form(one) for one in _answers(at, DEMO)} for at in (store, other))
    for workload, told in ours.items():
        for what, value in told.items():
            printed = theirs.get(workload, {}).get(what)
            if printed != value:
                return f"{', '.join(workload)}: README.md has as {what} {value}, and the demo {printed}."
    return ""


def form(answer: Answer) -> dict[str, Any]:
    """What is to be the same on every machine."""
    beaten = [place.name for place in answer.places if place.kind is Kind.WORSE]
    return {
        "metric": answer.metric.name,
        "seeds of a row": answer.seeds,
        "rows": sorted(place.name for place in answer.places),
        "settings": sorted({name for place in answer.places for name in place.setting}),
        "rows that the best one beats": sorted(beaten),
        "rows with a setting at an edge": sorted(place.name for place in answer.places if _is_at_edge(place)),
    }


def _is_at_edge(place: Place) -> bool:
    """Whether a value of its setting lies at an edge of what was tried."""
    return any(note.kind == "edge" for note in place.notes)


def _answers(store: Store, sweeps: Sequence[str]) -> list[Answer]:
    return [one for name in sweeps for one in answers(load_rows(store, [name]), store)]


def _parts(text: str) -> tuple[str, str, str]:
    """A page before, between and after the marks."""
    before, begin, rest = text.partition(f"{BEGIN}\n")
    between, end, after = rest.partition(f"\n{END}")
    if not begin or not end:
        raise UsageError(f"README.md lacks the lines '{BEGIN}' and '{END}'.")
    return before, between, after


# --- what is made ---


def gain_in_parts(folder: Path) -> str:
    """What Muon's gain over AdamW is made of, at each size, with intervals, as a sentence.

    Args:
        folder: empty; the records are unpacked there.
    """
    store = records.unpacked(folder, SPLIT, LADDER)
    frame = pd.DataFrame(load_rows(store, SPLIT))
    sizes = {
        str(part[0]["model"]): split_section.endpoints(part, store) for part in split_section.workloads(frame)
    }
    questions = list(split_section.PRIMARY)
    told = [
        f"{name} {', '.join(_short(gaps[questions[at]]) for gaps in sizes.values())}"
        for name, at in _PARTS.items()
    ]
    gain = ", ".join(
        _short(gap) for gaps in sizes.values() for gap in map(gaps.get, split_section.GAIN) if gap
    )
    return (
        f"Muon (hidden matrices only) less AdamW, test loss in nats [95 %], at {', '.join(sizes)}: {gain}. "
        f"[Its parts, jointly](docs/ladder.md#the-split-what-is-muons-gain-made-of): {'; '.join(told)}."
    )


def _short(gap: split_section.Difference) -> str:
    return f"{gap.value:+.3f} [{gap.low:.3f}, {gap.high:.3f}]"


def made(found: Sequence[Answer], parts: str) -> str:
    """What stands between the marks."""
    told = " ".join(f"{one.workload[1]}: {one.verdict}" for one in found)
    place = PICTURE.relative_to(ROOT).as_posix()
    shown = f"```text\n$ htbench table main_result {SHOWN}\n{screen([SHOWN])}\n```"
    words = textwrap.fill(parts, _LINE, break_long_words=False, break_on_hyphens=False)
    return f"![{told}]({place})\n\n{words}\n\nThe demo's answer:\n\n{shown}"


def drawn(found: Sequence[Answer]) -> str:
    """All that the picture shows, in words."""
    lines = []
    for answer in found:
        lines += [" · ".join(answer.workload), str(answer.verdict)]
        lines += [f"{one.rank} {one.name} {one.value.text()} {_behind(one, answer)}" for one in answer.places]
    return "\n".join(lines)


def _behind(place: Place, answer: Answer) -> str:
    """How far a row is behind the best, with the interval; of the best one, what ties with it."""
    if place.gap is not None:
        ends = [f"{end:.{answer.metric.digits}f}" for end in (place.low, place.high) if end is not None]
        return f"{place.gap:+.{answer.metric.digits}f}" + (f" [{', '.join(ends)}]" if len(ends) == 2 else "")
    if place.kind is not Kind.BEST:
        return ""
    ties = [one.name for one in answer.ties]
    return f"tied with {ties[0] if len(ties) == 1 else f'{len(ties)} others'}" if ties else "best"


def png(found: Sequence[Answer]) -> bytes:
    """The picture as a file that says what it shows."""
    file = io.BytesIO()
    with use_look():
        draw(found).savefig(file, format="png", dpi=200, metadata={"Software": None, _DRAWN: drawn(found)})
    return file.getvalue()


# Inches. Text is larger than in figures of a paper: a page on GitHub shows the picture at 0.65 of its size.
_WIDTH, _ROW, _HEAD, _FOOT = 6.9, 0.21, 0.68, 0.34
_LEFT, _RIGHT = 2.05, 1.6  # beside the axis, for names and values, and for distances
_RANK, _NAME, _VALUE, _BEHIND = -2.0, -1.7, -0.15, _WIDTH - _LEFT - _RIGHT + 0.12  # from its left end
_TITLE, _TEXT, _SMALL = 9.5, 8.5, 7.5  # points


def draw(found: Sequence[Answer]) -> Canvas:
    """A forest plot for each workload: how far a row is behind the best, with the interval that decides."""
    heights = [_HEAD + _ROW * len(answer.places) + _FOOT for answer in found]
    height = sum(heights)
    canvas = Canvas(figsize=(_WIDTH, height))
    for at, answer in enumerate(found):
        low, rows = sum(heights[at + 1 :]) + _FOOT, _ROW * len(answer.places)
        width = _WIDTH - _LEFT - _RIGHT
        ax = canvas.add_axes((_LEFT / _WIDTH, low / height, width / _WIDTH, rows / height))
        _forest(ax, answer)
    return canvas


def _forest(ax: Any, answer: Answer) -> None:
    metric, count = answer.metric, len(answer.places)

    def text(inches: float, row: float, shown: str, **style: Any) -> None:
        style = {"size": _TEXT, "va": "center", "annotation_clip": False} | style
        ax.annotate(shown, (0, row), (72 * inches, 0), ("axes fraction", "data"), "offset points", **style)

    text(_RANK, -2.9, " · ".join(answer.workload), size=_TITLE, weight="bold")
    text(_RANK, -2, str(answer.verdict), size=_TITLE)
    measured = f"test {metric.label} {'↑' if metric.higher_is_better else '↓'}, {answer.seeds[0]} seeds"
    text(_VALUE, -1, measured, size=_SMALL, color=GREY, ha="right")
    text(_BEHIND, -1, "behind the best [95 %]", size=_SMALL, color=GREY)
    for row, (place, wins) in enumerate(zip(answer.places, answer.wins, strict=True)):
        style, weight = optimizer_style(place.name), "bold" if wins else "normal"
        text(_RANK, row, place.rank)
        text(_NAME, row, f"{place.name}{' !' * _is_at_edge(place)}", weight=weight)
        text(_VALUE, row, place.value.text(), ha="right", weight=weight)
        text(_BEHIND, row, _behind(place, answer))
        if place.low is not None and place.high is not None:
            ax.plot([place.low, place.high], [row, row], color=style["color"], linewidth=1.8)
        if place.kind is not None:
            look_of_mark = {"color": style["color"], "markersize": 6.5, "markeredgecolor": "white"}
            ax.plot(place.gap or 0, row, style["marker"], zorder=3, **look_of_mark)
    ax.set(ylim=(count - 0.4, -0.6), yticks=[])
    ends = [(one.low, one.high) for one in answer.places if one.low is not None and one.high is not None]
    if ends:
        lows, highs = zip(*ends, strict=True)
        most = min(max(highs), 3 * statistics.median(highs))  # one hopeless row may not squeeze all others
        least = min(0.0, *lows)
        ax.set_xlim(least - 0.05 * (most - least), most + 0.05 * (most - least))
        ax.axvline(0, color=GREY, linewidth=0.8, zorder=1)
    ax.grid(axis="y", visible=False)
    ax.spines["left"].set_visible(False)


if __name__ == "__main__":
    sys.exit(main())
