"""Cells of other people's files as words and numbers. One rule says which words are taken.

A word ends up in tables, pages, figures, file listings and spreadsheets. It has 1 to 200 printable
characters, none of them <, > or $, it holds neither '..' nor '](', and it does not begin with = + - or @.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from harness.config import Value
from harness.errors import UsageError

LONGEST = 200
_FORMULA = tuple("=+-@")  # a spreadsheet computes a cell that begins so
_PARTS = {
    **dict.fromkeys("<>", "a page reads it as a tag"),
    **{"$": "a figure reads it as a formula", "](": "a page reads it as a link"},
    "..": "it looks like a path",
}


def word(text: str) -> str:
    """A cell as a word, without spaces around it.

    Raises:
        UsageError: the rule above refuses it; a part of a sentence that begins with the word.
    """
    text = text.strip()
    if len(text) > LONGEST:
        raise UsageError(f"{shown(text)} has {len(text)} characters; at most {LONGEST} are taken")
    if not text.isprintable():
        raise UsageError(f"{shown(text)} has characters that can't be printed; remove them")
    if text.startswith(_FORMULA):
        raise UsageError(f"{shown(text)} begins with {text[0]}, so a spreadsheet would compute it; rename it")
    for part, why in _PARTS.items():
        if part in text:
            raise UsageError(f"{shown(text)} has {part} in it, and {why}; rename it")
    return text


def shown(text: str) -> str:
    """Any text in quotes, as a sentence can hold it: ASCII, and at most 40 characters of it."""
    return ascii(text if len(text) <= 40 else text[:40] + "...")


def listed(names: Sequence[str]) -> str:
    """Names of any kind for a sentence, at most twelve of them."""
    names = [name if name.isprintable() and len(name) <= 40 else shown(name) for name in names]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def capital(text: str) -> str:
    """A text as the begin of a sentence."""
    return text[:1].upper() + text[1:]


@contextlib.contextmanager
def beginning(where: str) -> Iterator[None]:
    """Make a sentence that begins with a place of the part of a sentence that a refusal within has."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}: {error}.") from None


def number(text: str) -> float:
    """A cell as a number: `3.28`, `1e-3`, `nan`, `inf`. It may not be finite.

    Raises:
        UsageError: it is none; a part of a sentence.
    """
    text = text.strip()
    if text.isascii() and "_" not in text:
        try:
            return float(text)
        except ValueError:
            pass
    hint = "; write the decimal point as '.'" if text.replace(",", "", 1).isdigit() else ""
    raise UsageError(f"{shown(text)} is no number{hint}")


def scaled(text: str, factor: Fraction) -> float:
    """As `number`, times a factor, exact to the last digit: 91.3 / 100 = 0.913."""
    value = number(text)
    return float(Fraction(repr(value)) * factor) if factor != 1 and math.isfinite(value) else value


def whole(value: float) -> int:
    """A number as a whole one from 0.

    Raises:
        UsageError: it is none; a part of a sentence.
    """
    if not (math.isfinite(value) and value >= 0 and value == int(value) and value < 2**53):
        raise UsageError(f"{value:.12g} is no whole number from 0")
    return int(value)


def finite(text: str) -> float:
    """A cell as a finite number.

    Raises:
        UsageError: it is none; a part of a sentence.
    """
    value = number(text)
    if not math.isfinite(value):
        raise UsageError(f"{shown(text)} is not finite")
    return value


def plain(text: str) -> Value:
    """A setting: a whole number, a number, true or false, or a word.

    Raises:
        UsageError: a number that is not finite, or a word that the rule refuses; a part of a sentence.
    """
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        number(text)
    except UsageError:
        return word(text)
    value = finite(text)
    return int(text) if text.lstrip("+-").isdigit() and len(text) < 16 else value


def factor(text: str) -> Fraction | None:
    """A number by which cells can be multiplied: finite, above 0; None if it is none."""
    with contextlib.suppress(UsageError):
        if 0 < number(text) < 1e30:
            return Fraction(repr(number(text)))
    return None
