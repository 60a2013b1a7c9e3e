"""`htbench table`, `htbench judge`, `htbench figure` and `htbench ledger`."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from htbench.harness.errors import EXIT_RUN_FAILED
from htbench.harness.paper.scales import SCALES
from htbench.harness.show.emit import PARQUET, SUFFIXES, as_bytes, emit, say
from htbench.harness.show.note import Note
from htbench.harness.show.progress import each
from htbench.harness.show.report import Report
from htbench.harness.store import Store, naming
from htbench.harness.store.points import sweep_names
from htbench.harness.system import atomic
from htbench.harness.system.folders import make_folder
from htbench.harness.system.machine import without_collection
from htbench.results.compare.view import PUBLISHED, RUNS, SOURCES, View
from htbench.results.frames.from_csv import read_runs
from htbench.results.frames.load import load_rows
from htbench.results.tables import answer
from htbench.results.tables.ledger import make_ledger
from htbench.results.tables.registry import TABLES


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """Add [NAME ...], which runs they show, --wide, --notes, --format, --json, --out and --strict."""
    _add_common(parser, TABLES, "table")
    add_paper_arguments(parser)
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit status 1 if runs behind a table differ in what can change their numbers",
    )
    _add_format(parser, SUFFIXES)
    parser.add_argument("--out", type=Path, metavar="DIR", help="write files there instead of printing")


@without_collection()
def table(args: argparse.Namespace) -> int:
    """Print tables, or write one file each. With `--strict`, exit status 1 if a table mixes unlike runs.

    Raises:
        UsageError: a table is unknown, or the folder can't be written to.
    """
    names, sweeps = _select(args, TABLES, "table")
    view = _make_view(args, sweeps)
    reports = [TABLES[name](view) for name in names]
    is_named = any(word in TABLES for word in args.names)
    reports = [report for report in reports if is_named or report.sections] or reports
    if args.out is not None:
        make_folder(args.out)
        form = args.format or "md"
        for report in reports:
            path = args.out / f"{report.name}.{SUFFIXES[form]}"
            atomic.write_bytes(path, as_bytes(report, form))
            emit(Report("table", "", notes=[Note("written", path=path)]))
    elif args.format or is_named:
        emit(reports, args)
    else:  # the first one has the answer, and a screen holds no more
        first, *more_reports = reports
        more = [Note("more_tables", names=[report.name for report in more_reports])] if more_reports else []
        emit(replace(first, footer=more), args)
    return _report_mixtures(reports) if args.strict else 0


def _make_view(args: argparse.Namespace, sweeps: Sequence[str] | None) -> View:
    """What is shown; published numbers need no store."""
    store = Store(args.root)
    frame = None if args.source == PUBLISHED else load_rows(store, sweeps, say)
    return View(frame, args.source, args.scale, store)


def _report_mixtures(reports: Iterable[Report]) -> int:
    """Print to stderr which tables mix runs that are not comparable; return the exit status."""
    mixtures = [
        (report, mixture) for report in reports for part in report.sections for mixture in part.mixtures
    ]
    for sentence in dict.fromkeys(f"{report.name}, {mixture}" for report, mixture in mixtures):
        say(f"{sentence}.")
    return EXIT_RUN_FAILED if mixtures else 0


def add_paper_arguments(parser: argparse.ArgumentParser) -> None:
    """Add [--source SOURCE] [--scale SCALE]..., for what stands in the paper."""
    parser.add_argument(
        "--source",
        choices=SOURCES,
        default="both",
        help="of the paper's tables: published numbers, our runs, or both (default: %(default)s)",
    )
    parser.add_argument(
        "--scale",
        choices=SCALES,
        action="append",
        help="runs of the paper's experiments at this scale; may be repeated (default: all that are planned)",
    )


def add_figure_arguments(parser: argparse.ArgumentParser) -> None:
    """Add [NAME ...] [--sweep NAME]... [--source SOURCE] [--scale SCALE]... [--out DIR]."""
    from htbench.results.figures.registry import FIGURES  # tables do without

    _add_common(parser, FIGURES, "figure")
    add_paper_arguments(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where to put them (default: ROOT/figures; those of some runs in a folder of their own there)",
    )


def figure(args: argparse.Namespace) -> int:
    """Draw the figures whose data have changed, as PNG and PDF, with the CSV file of their values.

    Those with nothing to draw share a line.

    Raises:
        UsageError: a figure is unknown, the folder can't be written to, or it has files of somebody else.
    """
    from htbench.results.figures.files import check_folder, choose_folder, draw_figure
    from htbench.results.figures.registry import FIGURES

    names, sweeps = _select(args, FIGURES, "figure")
    folder = args.out or choose_folder(args.root / "figures", args.root, sweeps, args.source, args.scale)
    view = _make_view(args, sweeps)
    if args.out:
        check_folder(args.out, names)
    drawn = {name: [*draw_figure(name, view, folder)] for name in each(names, "figures")}
    notes = [
        Note("figure_done", name=name, pictures=pictures) for name, pictures in drawn.items() if pictures
    ]
    empty = [name for name in names if not drawn[name]]
    emit(Report("figure", "", notes=notes + ([Note("figures_without", names=empty)] if empty else [])))
    return 0


def add_ledger_arguments(parser: argparse.ArgumentParser) -> None:
    """Add [SWEEP ...] [--sweep SWEEP]... [--scale SCALE]... [--format FORMAT] [--json]."""
    naming.add_words(parser)
    parser.add_argument(
        "--scale",
        action="append",
        choices=SCALES,
        default=[],
        help="whose runs stand beside the published numbers; may be repeated (default: every scale that the "
        "store has planned, else paper)",
    )
    _add_format(parser, [name for name in SUFFIXES if name != PARQUET])


def ledger(args: argparse.Namespace) -> int:
    """Print the ledger. Its exit status is 0 whatever the verdicts."""
    store, sweeps = Store(args.root), naming.chosen(args)
    rows = load_rows(store, sweeps or None, say) if sweep_names(args.root) else []
    emit(make_ledger(View(rows, chosen=args.scale or None, store=store)), args)
    return 0


def add_judge_arguments(parser: argparse.ArgumentParser) -> None:
    """Add FILE, which of its columns mean what, and how the answer is written."""
    parser.add_argument("file", type=Path, metavar="FILE.csv", help="a line per run: optimizer, seed, value")
    parser.add_argument(
        "--row",
        default="optimizer",
        metavar="COLUMN",
        help="what is compared (default: %(default)s); other columns are settings, but for stage (search or "
        "fresh), workload, steps and what begins with val, test or train",
    )
    parser.add_argument(
        "--metric",
        default="val_loss",
        metavar="COLUMN",
        help="the value that is judged (default: %(default)s)",
    )
    ways = parser.add_mutually_exclusive_group()
    for flag, value in (("--lower-is-better", False), ("--higher-is-better", True)):
        ways.add_argument(
            flag,
            dest="higher_is_better",
            action="store_const",
            const=value,
            help="if its name does not say it",
        )
    _add_format(parser, SUFFIXES)


def judge(args: argparse.Namespace) -> int:
    """Print the answer to a file of results, whoever made them. It reads no store.

    Raises:
        UsageError: the file does not say what is needed.
    """
    view = View(read_runs(args.file, args.row, args.metric, args.higher_is_better), RUNS)
    workloads = each(view.workloads, "workloads")
    sections = [answer.make_section(workload, view) for workload in workloads]
    emit(Report("judge", f"the answer of {args.file.name}", sections), args)
    return 0


def _add_format(parser: argparse.ArgumentParser, formats: Iterable[str]) -> None:
    parser.add_argument("--wide", action="store_true", help="on the screen: all columns, however wide")
    parser.add_argument("--notes", action="store_true", help="on the screen: how it was computed")
    parser.add_argument(
        "--format", choices=list(formats), help="how to write it (default: for the screen; files are md)"
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="--format json")


def _add_common(parser: argparse.ArgumentParser, entries: Iterable[str], kind: str) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"a {kind} (default: all) or a sweep, by name or file; what names both is the {kind}",
    )
    parser.epilog = f"{kind.capitalize()}s: {', '.join(entries)}."
    naming.add_option(parser)


def _select(
    args: argparse.Namespace, entries: Mapping[str, object], kind: str
) -> tuple[list[str], list[str] | None]:
    """The tables or figures to make, and the names of the sweeps to read; None means all runs."""
    names = [word for word in dict.fromkeys(args.names) if word in entries]
    sweeps = naming.chosen(args, [word for word in args.names if word not in entries], {kind: entries})
    return names or list(entries), sweeps or None
