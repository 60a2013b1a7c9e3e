"""`htbench table` and `htbench figure`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness import atomic
from harness.errors import UsageError, nearest
from harness.store import Store, make_folder
from results.figures import FIGURES
from results.gallery import hang
from results.load import load
from results.render import FORMATS, render
from results.tables import TABLES


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """[NAME ...] [--sweep NAME ...] [--format md|csv|latex] [--out DIR]"""
    _add_common(parser, TABLES)
    parser.add_argument(
        "--format", choices=FORMATS, default="md", help="how to write them (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="write files there instead of printing")


def table(args: argparse.Namespace) -> int:
    """Print tables, or write one file each."""
    names = _names(args.names, TABLES, "table")
    frame = load(Store(args.root), args.sweep)
    texts = {name: render(TABLES[name](frame), args.format) for name in names}
    if args.out is None:
        print("\n".join(texts.values()), end="")
        return 0
    make_folder(args.out)
    for name, text in texts.items():
        path = args.out / f"{name}.{FORMATS[args.format].suffix}"
        atomic.write_text(path, text)
        print(path)
    return 0


def add_figure_arguments(parser: argparse.ArgumentParser) -> None:
    """[NAME ...] [--sweep NAME ...] [--out DIR]"""
    _add_common(parser, FIGURES)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to put them (default: ROOT/figures)")


def figure(args: argparse.Namespace) -> int:
    """Bring figures up to date, as PNG and PDF."""
    names = _names(args.names, FIGURES, "figure")
    store = Store(args.root)
    frame = load(store, args.sweep)
    for name in names:
        done = hang(name, frame, store, args.out or store.root / "figures")
        for warning in done.warnings:
            print(f"htbench: {warning}", file=sys.stderr)
        print(": ".join([f"{name}: {done.outcome}", *filter(None, [", ".join(map(str, done.paths))])]))
    return 0


def _add_common(parser: argparse.ArgumentParser, known: Iterable[str]) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(known)} (default: all)")
    parser.add_argument(
        "--sweep", action="extend", nargs="+", metavar="NAME", help="only these (default: all)"
    )


def _names(wanted: list[str], known: Mapping[str, object], kind: str) -> list[str]:
    for name in wanted:
        if name not in known:
            raise UsageError(f"Unknown {kind} '{name}'; {nearest(name, known)}")
    return list(dict.fromkeys(wanted)) or list(known)
