"""The page as text: its parts in order, with a list of contents, readable without the scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.show import html
from harness.show.html import escape
from harness.show.report import Report
from results.page import embed

MARK = '<meta name="generator" content="htbench">'  # a file without it is not ours to replace
_NO_SCRIPT = (
    "Without JavaScript, all is here but sorting, filtering, and the details and curves of single runs."
)
_DIALOG = (
    '<dialog id="run" aria-labelledby="run-title"><header><h2 id="run-title"></h2>'
    '<button type="button" class="close" aria-label="Close">&times;</button></header>'
    '<div class="body"></div></dialog>'
)


@dataclass(frozen=True)
class Part:
    """One part of the page.

    Attributes:
        name: its address in the page, of letters, digits, `-` and `_`.
        title: its heading.
        body: HTML.
        entries: what the list of contents shows below it: address and title of each.
    """

    name: str
    title: str
    body: str
    entries: Sequence[tuple[str, str]] = ()


def page(title: str, parts: Sequence[Part], data: Mapping[str, Any]) -> str:
    """The whole page, ASCII only, so that no browser can take it for another encoding.

    Args:
        title: of the page.
        parts: in order.
        data: what the scripts read, by id.
    """
    lines = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        MARK,
        embed.head(),
        f"<title>{escape(title)}</title>\n</head>\n<body>",
        _contents(parts),
        f"<main>\n<h1>{escape(title)}</h1>\n<noscript><p>{_NO_SCRIPT}</p></noscript>",
        *(_part(part) for part in parts),
        f"</main>\n{_DIALOG}",
        *(embed.data(name, value) for name, value in data.items()),
        embed.scripts(),
        "</body>\n</html>\n",
    ]
    return "\n".join(lines).encode("ascii", "xmlcharrefreplace").decode("ascii")


def _contents(parts: Sequence[Part]) -> str:
    entries = [f"<li>{_link(part.name, part.title)}{_below(part.entries)}</li>" for part in parts]
    body = f"<details open><summary>Contents</summary><ul>{''.join(entries)}</ul></details>"
    return f'<nav aria-label="Contents">{body}</nav>'


def _below(entries: Sequence[tuple[str, str]]) -> str:
    items = "".join(f"<li>{_link(*entry)}</li>" for entry in entries)
    return f"<ul>{items}</ul>" if items else ""


def _link(name: str, title: str) -> str:
    return f'<a href="#{name}">{escape(title)}</a>'


def _part(part: Part) -> str:
    return f'<section id="{part.name}">\n<h2>{escape(part.title)}</h2>\n{part.body}\n</section>'


def facts(pairs: Mapping[str, str]) -> str:
    """Names and values as a list."""
    items = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs.items())
    return f"<dl>{''.join(items)}</dl>"


def table(one: Report, attributes: html.Attributes = lambda cell: "", *, heading: bool = True) -> str:
    """A table, under its name and what it shows if `heading`."""
    sections = [html.section(section, attributes) for section in one.sections]
    head = [f'<h3 id="table-{one.name}">{escape(f"{one.name}: {one.title}")}</h3>'] if heading else []
    return "\n".join([*head, *sections])


def figure(name: str, png: bytes) -> str:
    """A picture under its name."""
    image = f'<img alt="figure {escape(name)}" width="{embed.width(png)}" src="{embed.picture(png)}">'
    caption = f"<figcaption>{escape(name)}</figcaption>"
    return f'<figure id="figure-{name}"><div class="wide">{image}</div>{caption}</figure>'
