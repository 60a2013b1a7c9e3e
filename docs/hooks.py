"""What the site has beside the files of docs/: a navigation with the cards, the pages of the root.

`mkdocs.yml` names this file. Links out of docs/ lead to the repository, or are told in words without one.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # for the programs beside this file

from docs import zoo_page  # noqa: E402

_OF_ROOT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "THIRD_PARTY.md", "AGENTS.md")
_CARDS = "Cards"  # the entry of the navigation that gets them
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s:]*)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the cards into the navigation."""
    for _, pages_of in _entries(config.nav):
        if isinstance(pages_of, list) and {_CARDS: []} in pages_of:
            pages_of.remove({_CARDS: []})
            pages_of += [{name: f"zoo/{name}.md"} for name in zoo_page.ZOO]
    return config


def _entries(nav: Any) -> list[tuple[str, Any]]:
    return [pair for entry in nav or [] if isinstance(entry, dict) for pair in entry.items()]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root."""
    for name in _OF_ROOT:
        if (ROOT / name).is_file():
            text = _of_root((ROOT / name).read_text(encoding="utf-8"))
            files.append(File.generated(config, _site_name(name), content=text))
    return files


def _site_name(name: str) -> str:
    """docs/README.md is the first page of the site, so that of the root has another name there."""
    return "readme-of-the-repository.md" if name == "README.md" else name.lower()


def _of_root(text: str) -> str:
    """A page of the root as one of docs/."""

    def moved(link: re.Match[str]) -> str:
        image, words, place, anchor = link[1], link[2], link[3], link[4] or ""
        if not place:
            return link[0]
        place = place.removeprefix("docs/") if place.startswith("docs/") else f"../{place}"
        return f"{image}[{words}]({place}{anchor})"

    return _LINK.sub(moved, text)


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Lead links out of docs/ somewhere."""
    here = (Path("docs") / page.file.src_uri).parent

    def led(link: re.Match[str]) -> str:
        image, words, place, anchor = link[1], link[2], link[3], link[4] or ""
        target = Path(os.path.normpath(here / place)).as_posix()
        if (
            not place
            or target.startswith("docs/")
            or (ROOT / target / "").exists()
            and not place.startswith("..")
        ):
            return link[0]
        if target in _OF_ROOT:
            up = "../" * (len(here.parts) - 1)
            return f"{image}[{words}]({up}{_site_name(target)}{anchor})"
        if config.repo_url:
            return f"{image}[{words}]({config.repo_url.rstrip('/')}/blob/main/{target}{anchor})"
        return words if words.strip("`") == target else f"{words} (`{target}`)"

    return _LINK.sub(led, markdown)
