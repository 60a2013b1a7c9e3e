"""One way out for everything that a command has found."""

import argparse
import sys
from collections.abc import Callable, Sequence

from htbench.harness.errors import UsageError
from htbench.harness.show.harmless import in_a_line
from htbench.harness.show.numbers import document
from htbench.harness.show.report import Report

PARQUET = "parquet"  # no text, and one report to a file
SUFFIXES = {"md": "md", "csv": "csv", "latex": "tex", "html": "html", "json": "json", PARQUET: PARQUET}


def emit(
    reports: Report | Sequence[Report], args: argparse.Namespace | None = None, *, stream: bool = False
) -> None:
    """Print reports as `args.json` and `args.format` ask for; without either for a person, on the screen.

    Args:
        reports: one, or several.
        args: of the command; None: for a person. `args.wide` and `args.notes`: as in `ScreenOptions`.
        stream: JSON without line breaks, for a stream of documents.

    Raises:
        UsageError: Parquet of several reports, or on a screen.
    """
    reports = [reports] if isinstance(reports, Report) else reports
    form = "json" if getattr(args, "json", False) else getattr(args, "format", None) or ""
    if not form:
        from htbench.harness.show import terminal

        terminal.show(reports, wide=getattr(args, "wide", None), notes=getattr(args, "notes", True))
    elif stream and form == "json":
        print(document(reports[0].data, in_a_line=True), flush=True)
    elif form != PARQUET:
        print(as_text(reports, form), end="", flush=True)
    elif len(reports) > 1:
        raise UsageError(
            f"A Parquet file holds one table, not {len(reports)}; name one, or a folder with --out DIR."
        )
    elif sys.stdout.isatty():
        raise UsageError("Parquet is not for a screen; name a folder with --out DIR, or send it to a file.")
    else:
        sys.stdout.buffer.write(as_bytes(reports[0], form))


def say(fact: object) -> None:
    """Tell a person what is no result: a line on stderr."""
    print(f"htbench: {in_a_line(str(fact))}", file=sys.stderr, flush=True)


def as_text(reports: Sequence[Report], form: str) -> str:
    """Reports as one text that ends in a line break.

    Args:
        reports: at least one.
        form: a key of SUFFIXES other than PARQUET; empty: as a plain screen.
    """
    # each loads what it needs when it is called: `htbench --help` does without
    from htbench.harness.show import html, latex, markdown, terminal, tidy

    writers: dict[str, Callable[[Sequence[Report]], str]] = {
        "": terminal.write,
        "md": markdown.write,
        "csv": tidy.write_csv,
        "latex": latex.write,
        "html": html.write,
        "json": tidy.write_json,
    }
    return writers[form](reports)


def as_bytes(report: Report, form: str) -> bytes:
    """The content of a file with a report, in a format of SUFFIXES."""
    from htbench.harness.show import tidy

    return tidy.write_parquet(report) if form == PARQUET else as_text([report], form).encode()
