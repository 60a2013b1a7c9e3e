"""Pages with what programs know: `<!-- generated: NAME -->` in a page stands for text made from the code.

`python -m docs.pages config` prints docs/config.md with its tables, and `python -m docs.pages zoo/muon` the
card of an optimizer, which has no file. The site is made of the same (`docs/site.py`).
"""

import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from docs import command_page, config_page, json_page, zoo_page
from docs import reproduction_records as records
from htbench.harness.show import terminal
from htbench.harness.show.emit import as_text
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import TABLES

FOLDER = Path(__file__).parent
DEMO = ("demo-pydocs", "demo-digits")


def flops() -> str:
    """The operations of an update on the paper's models, which depend on no run."""
    return as_text([TABLES["flops"](View(source="published"))], "md")


def screen(sweeps: Sequence[str] = DEMO) -> str:
    """The main table of the demo, or of a part of it, as it stands on a screen of 80 columns."""
    with tempfile.TemporaryDirectory() as folder:
        store = records.unpacked(Path(folder), sweeps)
        table = TABLES["main_result"](View(load_rows(store), store=store))
    return terminal.write([table], notes=False, width=80).strip()


GENERATED: Mapping[str, Callable[[], str]] = {
    "settings": config_page.settings,
    "schedules": config_page.schedules,
    "tasks": config_page.task_rows,
    "sweep keys": config_page.sweep_keys,
    "zoo": zoo_page.listing,
    "json": json_page.render,
    "command line": command_page.render,
    "flops": flops,
    "screen": screen,
}
_MARK = re.compile(r"^<!-- generated: (.*) -->$", re.MULTILINE)


def filled(text: str) -> str:
    """A page with its generated parts.

    Raises:
        KeyError: a part that no program makes.
    """
    return _MARK.sub(lambda mark: GENERATED[mark[1]](), text)


def parts(text: str) -> list[str]:
    """The names of the generated parts of a page."""
    return _MARK.findall(text)


def main(words: Sequence[str]) -> int:
    """Print pages."""
    for word in words:
        kind, _, name = word.partition("/")
        if kind == "zoo" and name:
            print(zoo_page.card(zoo_page.ZOO[name]))
        else:
            print(filled((FOLDER / f"{word}.md").read_text(encoding="utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
