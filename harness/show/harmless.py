"""Text of others on its way out: what a terminal, a spreadsheet or a page would obey becomes visible.

A store may come from anybody, so a name, a note or a message may hold anything. Nothing is refused or changed
where it is read; each way out passes its text through here. `html.escape` and `harness.show.latex` do the
rest for their formats. JSON and Parquet are data and stay as they are.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

# Controls but for tab and line feed; marks without a width, and those that turn the direction of what follows
# (Trojan Source, CVE-2021-42574); separators of lines; halves of characters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
_LINES = re.compile("[\t\n]")
_FORMULA = tuple("=+-@＝＋－＠")  # a spreadsheet computes a cell that begins so, also after spaces
# What a reader of Markdown takes for a tag or a link. Other signs change the look only.
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])|(?<=\])[(\[]")


def visible(text: str) -> str:
    """A text whose hidden characters are shown, such as `\\x1b` or `\\u202e`; tabs and lines stay."""
    return _HIDDEN.sub(_escape_match, text)


def in_a_line(text: str) -> str:
    """As `visible`, tabs and ends of lines included."""
    return _LINES.sub(_escape_match, visible(text))


def _escape_match(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def csv_cell(text: str) -> str:
    """A cell of a CSV file; what a spreadsheet would compute begins with a quote, so that it does not."""
    text = in_a_line(text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return len(text) == 1  # a dash
    return True


def markdown(text: str) -> str:
    """A line of Markdown without HTML, links and pictures; code between backticks may be in it."""
    return _MARKUP.sub(r"\\\g<0>", in_a_line(text))


def markdown_cell(text: str) -> str:
    """A cell of a Markdown table."""
    return markdown(text).replace("|", "\\|").replace("`", "\\`")


@contextlib.contextmanager
def obeyed(stream: Any) -> Iterator[None]:
    """Let what is written to a stream meanwhile control its terminal: colours, and bars that are drawn again.

    All words in it must have passed `in_a_line` or `visible`. Other streams than those of `system/streams.py`
    obey whatever comes.
    """
    if not hasattr(stream, "obeys"):
        yield
        return
    stream.obeys = True
    try:
        yield
    finally:
        stream.obeys = False
