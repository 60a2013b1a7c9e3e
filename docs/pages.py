"""Pages with what programs know: what stands between `<!-- generated: NAME -->` and `<!-- end -->` in a page.

    python -m docs.pages                  names the pages that are not what the code says
    python -m docs.pages --write          writes these, the cards of the optimizers (docs/zoo/) among them
    python -m docs.pages --write config   writes one

They are committed as they are made, for readers of the repository; tests hold them fresh. Pages of
experiments, made from records in minutes, have `docs/reproduction_page.py`.
"""

import argparse
import contextlib
import io
import itertools
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from docs import (
    api_page,
    command_page,
    config_page,
    figures_page,
    gpu_page,
    json_page,
    outside_page,
    zoo_page,
)
from docs import reproduction_records as records
from htbench.harness import cli
from htbench.harness.show import terminal
from htbench.harness.show.emit import as_text
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import TABLES

FOLDER = Path(__file__).parent


def flops() -> str:
    """The operations of an update on the paper's models, which depend on no run."""
    return as_text([TABLES["flops"](View(source="published"))], "md").strip()


def screen(sweeps: Sequence[str] = records.DEMO) -> str:
    """The main table of the demo, or of a part of it, as it stands on a screen of 80 columns."""
    with tempfile.TemporaryDirectory() as folder:
        store = records.unpacked(Path(folder), sweeps)
        table = TABLES["main_result"](View(load_rows(store), store=store))
    return terminal.write([table], notes=False, width=80).strip()


def _fenced_screen() -> str:
    return f"```text\n{screen()}\n```"


def track3() -> str:
    """What `htbench judge` says of the runs of track 3."""
    words = ["--metric", "steps_to_target", "--lower-is-better"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        cli.main(["judge", str(FOLDER / "track3" / "runs.csv"), *words])
    lines = (
        textwrap.wrap(line, 110, subsequent_indent="  ", replace_whitespace=False, drop_whitespace=True)
        if len(line) > 110
        else [line]
        for line in said.getvalue().splitlines()
    )
    return "```text\n" + "\n".join(itertools.chain.from_iterable(lines)) + "\n```"


GENERATED: Mapping[str, Callable[[], str]] = {
    "settings": config_page.settings,
    "schedules": config_page.schedules,
    "tasks": config_page.task_rows,
    "sweep keys": config_page.sweep_keys,
    "zoo": zoo_page.listing,
    "json": json_page.render,
    "commands": command_page.listing,
    "command line": command_page.render,
    "api": api_page.render,
    "flops": flops,
    "screen": _fenced_screen,
    "track 3": track3,
    "gallery": figures_page.gallery,
    "gpu": gpu_page.render,
    "gpu parts": gpu_page.list_parts,
    "outside properties": outside_page.properties,
    "outside classes": outside_page.packages,
    "outside factors": outside_page.factors,
    "outside result": outside_page.result,
}
_PART = re.compile(r"^<!-- generated: ([^>\n]*) -->\n(?:.*?\n)??<!-- end -->$", re.MULTILINE | re.DOTALL)


def filled(text: str) -> str:
    """A page with its generated parts made anew.

    Raises:
        KeyError: a part that no program makes.
    """
    return _PART.sub(
        lambda part: f"<!-- generated: {part[1]} -->\n\n{GENERATED[part[1]]()}\n\n<!-- end -->", text
    )


def without_parts(text: str) -> str:
    """What people wrote of a page."""
    return _PART.sub("", text)


def parts(text: str) -> list[str]:
    """The names of the generated parts of a page."""
    return _PART.findall(text)


def made(names: Sequence[str] = ()) -> Iterator[tuple[Path, str]]:
    """The pages with such parts and the cards, each with its text as the code would have it now.

    Args:
        names: of pages, without suffix, "zoo/muon" for a card; empty: all.
    """
    for place in sorted(FOLDER.rglob("*.md")):
        name = place.relative_to(FOLDER).with_suffix("").as_posix()
        text = place.read_text(encoding="utf-8")
        if parts(text) and (not names or name in names):
            yield place, filled(text)
    for name in zoo_page.ZOO:
        if not names or f"zoo/{name}" in names:
            yield FOLDER / "zoo" / f"{name}.md", zoo_page.card(zoo_page.ZOO[name])


def main(words: Sequence[str]) -> int:
    """Name or write pages."""
    parser = argparse.ArgumentParser(prog="python -m docs.pages", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write them")
    parser.add_argument("names", nargs="*", help="of pages (default: all)")
    args = parser.parse_args(words)
    for place, text in made(args.names):
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            print(place.relative_to(FOLDER.parent))
            if args.write:
                place.parent.mkdir(exist_ok=True)
                place.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
