"""Writes the pages of experiments from the compact records beside them: docs/ladder.md, docs/reproduction/.

    python -m docs.reproduction_page                 writes all pages that have records, and their pictures
    python -m docs.reproduction_page ladder          writes one
    python -m docs.reproduction_page --seen STORE    for `reproduce`: how long nano and ladder took there

A page begins with what people write: title, discussion. All below the line "by docs/reproduction_page.py" is
made from the records (`docs/reproduction_records.py`): findings and figures. Tables are CSV files in the
folder of the page's name.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import math
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from PIL import Image

from docs import reproduction_records as records
from docs import search_section, split_section
from docs.config_page import table
from docs.pooled import Pooled, pooled
from htbench.harness.paper import experiments, reported, scales
from htbench.harness.show import numbers
from htbench.harness.show.emit import as_text
from htbench.harness.show.report import Report
from htbench.harness.store import Store
from htbench.harness.store.points import REPLICATE, SEARCH, sweep_names
from htbench.results.compare.draws import Estimate
from htbench.results.compare.judge import Row
from htbench.results.compare.ladder import Ladder
from htbench.results.compare.ladder_points import Rung
from htbench.results.compare.view import View
from htbench.results.figures.files import draw_figure
from htbench.results.figures.registry import FIGURES
from htbench.results.frames.load import load_rows
from htbench.results.page import overview
from htbench.results.tables.answer import Answer, Place, answers
from htbench.results.tables.registry import TABLES
from htbench.sweeps.experiments import ladder
from htbench.sweeps.plan import search_size
from htbench.sweeps.reproduce_card import SEEN

SCALE = "nano"
FOLDER = Path(__file__).with_name("reproduction")
LADDER = Path(__file__).with_name("ladder") / "records"
BEGIN = "<!-- by docs/reproduction_page.py -->"
EQUAL = 0.005  # nats, by docs/ladder.md
PAPER_RATIO = 20.0  # tokens to parameters of the runs that stand for those of the paper, by docs/ladder.md
_LOSSES = {"test_loss": "test", "val_loss": "validation", "train_loss": "training"}
COLOURS = 128  # of a picture; more make it larger and look the same

# The grid of an experiment, where none of the tables of the paper has it already.
_GRIDS = {"cifar": [], "p_grid_cifar": ["p_grid"]}
_OF_PAPER = ("main_result", "optimizer_variants", "p_grid_c4", "interval_perplexity", "htmuon_ht")
_LADDER_TABLES = ("multipliers", *_OF_PAPER)
_LADDER_FIGURES = ("multiplier", "horizon", "lr_curve", "seed_spread")


@dataclass(frozen=True)
class Page:
    """What a page shows.

    Attributes:
        name: of its file.
        sweeps: whose runs.
        tables: names, in their order.
        scale: of the paper's experiments; empty for other sweeps.
        figures: names of those that it has, if there is something to show.
        records: the folder of its records.
    """

    name: str
    sweeps: Sequence[str]
    tables: Sequence[str]
    scale: str = ""
    figures: Iterable[str] = tuple(FIGURES)
    records: Path = records.PLACE

    @property
    def place(self) -> Path:
        """The page. A folder of its name beside it has the pictures."""
        return (FOLDER if self.records == records.PLACE else FOLDER.parent) / f"{self.name}.md"


def of_experiment(name: str) -> Page:
    """The page of one of the paper's experiments: the tables whose last runs are its runs."""
    needs = {one: experiments.needed(SCALE, one) for one in reported.tables()}
    own = [one for one, needed in needs.items() if needed[-1:] == [name] and one in TABLES]
    wanted = {name, *(experiment for one in own for experiment in needs[one])}
    sweeps = [experiments.sweep(SCALE, one) for one in experiments.experiments(SCALE) if one in wanted]
    return Page(name, sweeps, [*own, *_GRIDS.get(name, ["lr_grid"])], SCALE)


def pages() -> dict[str, Page]:
    """The pages whose runs are all among the records."""
    demo = Page("demo", ["demo-pydocs", "demo-digits"], ["main_result", "lr_grid"])
    every = [demo, *map(of_experiment, experiments.experiments(SCALE))]
    there = set(records.sweeps())
    found = {page.name: page for page in every if there.issuperset(page.sweeps)}
    climbed = set(records.sweeps(LADDER))  # it grows with each sweep that is done
    if own := [name for name in ladder.ORDER if name in climbed]:
        shown = {"figures": _LADDER_FIGURES, "records": LADDER}
        found["ladder"] = Page("ladder", own, _LADDER_TABLES, "ladder", **shown)
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Write pages."""
    parser = argparse.ArgumentParser(prog="python -m docs.reproduction_page", description=__doc__)
    parser.add_argument("names", nargs="*", help="of pages (default: all that have records)")
    parser.add_argument(
        "--seen", type=Path, metavar="STORE", help="write only how long experiments took there"
    )
    args = parser.parse_args(words)
    if args.seen:
        known = [experiments.sweep(SCALE, one) for one in experiments.experiments(SCALE)] + [*ladder.ORDER]
        own = [name for name in known if name in sweep_names(args.seen)]  # it grows with each that is done
        runs = pd.DataFrame(load_rows(Store(args.seen), own))
        SEEN.write_text(seen(runs, SEEN.read_text("utf-8")), encoding="utf-8")
        return 0
    every = pages()
    for name in args.names or every:
        with tempfile.TemporaryDirectory() as folder:
            own = every[name]
            store = records.unpacked(Path(folder), own.sweeps, own.records)
            frame = pd.DataFrame(load_rows(store, own.sweeps))
            pictures = write_pictures(own, store, without_split(frame))
            place = own.place
            text, files = made(own, store, frame, pictures)
            place.write_text(below(place.read_text(encoding="utf-8"), text), encoding="utf-8")
            write_files(own, files)
        print(f"{place}, {len(files)} tables and {len(pictures)} pictures", file=sys.stderr)
    return 0


def below(text: str, made: str) -> str:
    """A page with the part that is made.

    Raises:
        ValueError: it has no place for it.
    """
    written, begin, _ = text.partition(BEGIN)
    if not begin:
        raise ValueError(f"The page lacks the line '{BEGIN}'.")
    return f"{written}{begin}\n\n{made}"


def write_files(page: Page, files: Mapping[str, str]) -> None:
    """Write the tables of a page in place of those that it had."""
    folder = page.place.with_suffix("")
    for old in folder.glob("*.csv"):
        old.unlink()
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")


def made(
    page: Page, store: Store, frame: pd.DataFrame, pictures: Sequence[str]
) -> tuple[str, Mapping[str, str]]:
    """The part of a page that is made from its runs, as Markdown, and its tables by name, as CSV."""
    every, frame = frame, without_split(frame)
    scales_shown = [page.scale] if page.scale else []
    view = View(frame.to_dict("records"), "both" if page.scale else "runs", scales_shown, store)
    tables = (*(TABLES[name](view) for name in page.tables), overview.cost(every.to_dict("records")))
    found = [one for one in tables if one.sections]
    shown = view.ladders if page.scale == "ladder" else []
    parts = [facts(every), *(endpoint(own, frame) for own in shown)]
    parts += [split_section.split(every, store, EQUAL)]
    of_search = every[(every["sweep"] == ladder.SEARCHED) & (every["stage"] == SEARCH)]
    picture = page.place.with_suffix("") / "searches.png"
    parts += [search_section.section(of_search, picture, search_size.MEASURED)]
    parts += [answer(one) for part in split_section.workloads(every) for one in answers(part, store)]
    parts += _answers(page, store, frame)
    parts += ["## What stands for what", twins(frame, page.scale)] if page.scale else []
    parts += ["## Tables", listing(page, found), *map(_law, found)]
    parts += ["## Figures", *(_picture(page, name) for name in pictures)] if pictures else []
    text = "\n\n".join(part.strip("\n") for part in parts if part) + "\n"
    return text, {one.name: as_text([one], "csv") for one in found}


def listing(page: Page, found: Sequence[Report]) -> str:
    """The tables of a page: what each has, and where."""
    rows = []
    for one in found:
        lines = sum(len(section.rows) for section in one.sections)
        rows.append((f"[{one.name}]({page.name}/{one.name}.csv)", f"{lines}", one.title))
    return table(("table", "rows", "what it has"), rows)


def _law(found: Report) -> str:
    """What stands below the table of multipliers: the law, and how it was checked."""
    notes = [note for section in found.sections for note in section.notes]
    return "\n".join(f"- {note}" for note in notes) if found.name == "multipliers" else ""


def without_split(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs of a page without those that ask about the split: they tune the same rules otherwise."""
    return frame[~frame["sweep"].isin([*ladder.SPLIT, ladder.SEARCHED])]


def endpoint(own: Ladder, frame: pd.DataFrame) -> str:
    """The primary endpoint of docs/ladder.md: HTMuon's loss less Muon's where both are tuned, and pooled."""
    known = {(one.rung.place, one.rung.optimizer): one for one in own.entries}
    head = ("size", "tokens per parameter", "fresh seeds", "Muon", "HTMuon", "HTMuon less Muon [95 %]")
    head += ("the paper's", "verdict")
    rows, pairs = [], []
    for one in own.entries:
        muon = known.get((one.rung.place, "muon"))
        if one.rung.optimizer != "htmuon" or muon is None or one.to_second is None:
            continue
        gap = one.to_second
        words = _interval(gap)
        model = "" if one.is_main else f", batches of {one.rung.batch}"
        place = (f"{one.rung.model}{model}", f"{one.rung.ratio:.0f}", f"{len(one.rung.row.values)}")
        published = (
            _published(own.task, one.rung.model) if one.is_main and one.rung.is_at(PAPER_RATIO) else ""
        )
        losses = (f"{muon.loss:.4f}", f"{one.loss:.4f}")
        at_edge = one.rung.at_edge or muon.rung.at_edge
        verdict = "open: an optimum at an edge" if at_edge else _reading(gap.low, gap.high)
        pairs += [] if at_edge else [(one.rung, muon.rung)]
        rows.append((*place, *losses, words, published, verdict))
    if not rows:
        return ""
    told = (
        f"Test loss in nats per token; less is better, below {EQUAL} is equal. Intervals are those of the "
        "answer below: the judge's, for all rules of a place at once. They count the seeds, the luck of the "
        "search and the sample of documents. Where neither of the two leads, it compares them alone."
    )
    return "\n\n".join(["## HTMuon less Muon", table(head, rows), told, *_pooled(pairs, frame)])


def _interval(gap: Estimate | Pooled) -> str:
    return f"{gap.value:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}]"


def _pooled(pairs: Sequence[tuple[Rung, Rung]], frame: pd.DataFrame) -> list[str]:
    """HTMuon's loss less Muon's over all places of the smallest size, of the two smallest, and so on."""
    if len(pairs) < 2:
        return []
    fresh = frame[frame["stage"] == REPLICATE].drop_duplicates("key").set_index("key")
    rows = []
    sizes = [*dict.fromkeys(one.model for one, _ in pairs)]  # the smallest first
    for count, (split, words) in itertools.product(range(1, len(sizes) + 1), _LOSSES.items()):
        some = [pair for pair in pairs if pair[0].model in sizes[:count]]
        gap = pooled([(_of_split(one, split, fresh), _of_split(muon, split, fresh)) for one, muon in some])
        places = (", ".join(sizes[:count]), words, f"{gap.above} of {gap.places}")
        rows.append((*places, _interval(gap), f"{gap.z:.1f}", f"{gap.z_apart:.1f}"))
    head = (
        "sizes",
        "loss",
        "Muon ahead at",
        "HTMuon less Muon, mean [95 %]",
        "z",
        "z, if searches err apart",
    )
    sweeps = {fresh.at[key, "sweep"] for pair in pairs for rung in pair for key in rung.keys}
    searches = frame[frame["sweep"].isin(sweeps) & (frame["stage"] == SEARCH)]
    orders = " and ".join(f"{order}" for order in sorted(set(searches["data_seed"])))
    items = pairs[0][0].row.items
    documents = 0 if items is None else len(set(items.clusters))
    told = (
        "The plain mean over places. They err together, so what they share is counted once: "
        f"the fresh seeds; the {documents} test documents, on the test loss only; "
        f"and the luck of the searches, which all had data order {orders}. How much of this luck is shared "
        "is not known: the interval and z take all of it, the last column none."
    )
    return ["### Pooled", table(head, rows), told]


def _of_split(rung: Rung, split: str, fresh: pd.DataFrame) -> Row:
    """A rung with its losses on another split, whose documents are not known."""
    if split == "test_loss":
        return rung.row
    runs = fresh.loc[list(rung.keys)]
    seeds = zip(runs["seed"], runs["data_seed"], strict=True)
    return replace(rung.row, values=dict(zip(seeds, runs[split], strict=True)), items=None)


def _reading(low: float | None, high: float | None) -> str:
    """What an interval of HTMuon's loss less Muon's says."""
    assert low is not None and high is not None
    if -EQUAL < low and high < EQUAL:
        return "equal"
    return "**HTMuon is better**" if high < 0 else "**Muon is better**" if low > 0 else "undecided"


def _published(task: str, twin: str) -> str:
    """The paper's gap on the workload that a model of ours stands for, as a difference in nats."""
    workloads = {ours: theirs for theirs, ours in scales.twins("ladder").items()}
    workload = workloads.get((task, twin))
    of_rules = {
        line.optimizer: line.value
        for line in reported.of_table("main_result")
        if (line.dataset, line.model) == workload
    }
    return f"{math.log(of_rules['htmuon'] / of_rules['muon']):+.4f}" if of_rules else ""


def _answers(page: Page, store: Store, frame: pd.DataFrame) -> list[str]:
    """Who is better. A page on p compares settings of one optimizer, which its tables do."""
    if page.name == "p_grid_cifar":
        return []
    main = frame[~frame["sweep"].isin(ladder.ASIDES)]
    found = answers(main.to_dict("records"), store)
    parts = ["## The answer", *map(answer, found)] if found else []
    if len(main) < len(frame):
        every = (own for own in answers(frame.to_dict("records"), store) if own not in found)
        asides = [answer(own) for own in every if len(own.places) > 1]
        parts += ["## Other rules and settings at the first size", *asides, ablations(frame)]
    return parts


def ablations(frame: pd.DataFrame) -> str:
    """HTMuon at other settings, each at its own best rate, beside Muon, which is HTMuon with p = 0."""
    fresh = finished(frame[frame["stage"] == REPLICATE])
    own = fresh[fresh["sweep"] == ladder.ASIDES[-1]]
    if own.empty:
        return ""
    muon = fresh[(fresh["sweep"] == "ladder-s1") & (fresh["rule"] == "muon")].assign(p=0.0, interval=1)
    rows = []
    for (interval, p), part in pd.concat([muon, own]).groupby(["interval", "p"]):
        known = [part[name].astype(float) for name in ("test_perplexity", "test_loss")]
        spreads = [f"{own.mean():.{n}f} ± {own.std():.{n}f}" for own, n in zip(known, (2, 4), strict=True)]
        rows.append((f"{p:g}", f"{interval:g}", f"{part['lr'].iloc[0]:g}", f"{len(part)}", *spreads))
    head = ("p", "interval", "lr", "fresh seeds", "test perplexity", "test loss in nats per token")
    title = "### HTMuon with other p, and with its map at every fifth step"
    return "\n\n".join(
        [title, table(head, rows), "p = 0 is Muon. Each is tuned by its rate; none has weight decay."]
    )


def answer(found: Answer) -> str:
    """Who is better on a workload, by how much, how sure, and what could change that."""
    head = ("", "optimizer", found.metric.label, "behind the best [95 %]", "setting")
    fewest, most = found.seeds
    seeds = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    notes = [f"- {mark} {note}" for mark, own in (("!", found.dangers), ("?", found.open)) for note in own]
    title = f"### {', '.join(found.workload)}: {found.metric.label}, {seeds} fresh seeds"
    return "\n\n".join(
        [title, f"**{found.verdict}**", table(head, map(_place, found.places)), "\n".join(notes)]
    )


def _place(place: Place) -> tuple[str, ...]:
    setting = ", ".join(f"{name} {numbers.setting(value)}" for name, value in place.setting.items())
    behind = "" if place.gap is None else f"{place.gap:+.2f} [{place.low:.2f}, {place.high:.2f}]"
    return place.rank, place.name, place.value.text(), behind, setting


# --- facts ---


def finished(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of runs with a record, each run once however many sweeps want it."""
    return frame[frame["steps"].notna()].drop_duplicates("key")


def facts(frame: pd.DataFrame) -> str:
    """How many runs, how long, on what."""
    done = finished(frame)
    lost = frame.drop_duplicates("key")["state"].value_counts().drop("completed", errors="ignore")
    others = ", ".join(f"{count} {state}" for state, count in sorted(lost.items())) or "none"
    machine, torch = (", ".join(sorted(map(str, set(done[one].dropna())))) for one in ("machine", "torch"))
    busy, spans = elapsed(done), sum(_seconds(done))
    return (
        f"{len(done)} runs on {machine} with torch {torch} took {numbers.duration(busy)}, pauses left out, "
        f"with {spans / busy if busy else 0:.1f} at a time on average. "
        f"Runs that were planned and did not complete: {others}."
    )


def elapsed(done: pd.DataFrame) -> float:
    """Seconds in which at least one of the runs was under way."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(zip(*_spans(done), strict=True)):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def _seconds(done: pd.DataFrame) -> pd.Series[float]:
    began, ended = _spans(done)
    return ended - began


def _spans(done: pd.DataFrame) -> tuple[pd.Series[float], pd.Series[float]]:
    """When runs began and ended. Of one that took twice as long as its steps, the pause is left out."""
    began, ended = (pd.to_datetime(done[name]).map(pd.Timestamp.timestamp) for name in ("began", "ended"))
    return began.where(ended - began <= 2 * done["useful_seconds"], ended - done["useful_seconds"]), ended


def seen(frame: pd.DataFrame, before: str = "") -> str:
    """What `htbench reproduce` tells of the time of experiments that nobody has run yet, as CSV.

    Args:
        frame: runs. Where other work had their cores, too, the time is taken that they had themselves.
        before: what was seen of experiments that are not among them.
    """
    done = finished(frame)
    share = (done["cpu_seconds_per_step"] / done["seconds_per_step"]).clip(upper=1).fillna(1)
    done = done.assign(seconds=_seconds(done) * share)
    rows = {row["experiment"]: [*row.values()] for row in csv.DictReader(io.StringIO(before))}
    for sweep, part in done.groupby("sweep", sort=False):
        experiment = str(sweep).partition("-")[2]
        rows[experiment] = [experiment, len(part), int(part["steps"].sum()), round(part["seconds"].sum())]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        [["experiment", "runs", "steps", "seconds"], *rows.values()]
    )
    return out.getvalue()


def twins(frame: pd.DataFrame, scale: str = SCALE) -> str:
    """The workloads of the paper and what stands for them here."""
    done = finished(frame[frame["sweep"].map(experiments.scale_of) == scale])
    head = ["published", "here", "parameters", "steps", "tokens seen"]
    rows = []
    for (dataset, model), (task, twin) in scales.twins(scale).items():
        part = done[(done["task"] == task) & (done["model"] == twin)]
        if not part.empty:
            rows.append([f"{dataset}, {model}", f"{task}, {twin}", *_size(part)])
    return table(head, rows)


def _size(runs: pd.DataFrame) -> list[str]:
    """Parameters, steps and tokens; of images there are none."""
    counts = [runs[name].max() for name in ("parameters", "steps", "tokens")]
    return [numbers.count(int(count)) if pd.notna(count) and count else "" for count in counts]


def _picture(page: Page, name: str) -> str:
    words = name.replace("_", " ")
    return f"### {words}\n\n![{words}]({page.name}/{name}.png)"


# --- pictures ---


def write_pictures(page: Page, store: Store, frame: pd.DataFrame) -> list[str]:
    """Draw all figures; returns the names of those that have something to show."""
    view = View(frame.to_dict("records"), "runs", [page.scale] if page.scale else None, store)
    folder = page.place.with_suffix("")
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    names = []
    with tempfile.TemporaryDirectory() as drawn:
        for name in page.figures:
            for path in draw_figure(name, view, Path(drawn)).paths:
                if path.suffix == ".png":
                    (folder / path.name).write_bytes(smaller(path.read_bytes()))
                    names.append(path.stem)
    return names


def smaller(png: bytes) -> bytes:
    """The picture with fewer colours."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
