"""Output for any terminal: characters that its encoding lacks are replaced and raise no error."""

from __future__ import annotations

import codecs
import sys
from io import TextIOWrapper

_PLAIN = {
    "±": "+-",
    "–": "-",
    "—": "-",
    "…": "...",
    "×": "x",
    "’": "'",
}
_HANDLER = "htbench.plain"


def take_any_text() -> None:
    """From now on stdout and stderr write `+-` where their encoding has no `±`, and `?` for other signs."""
    codecs.register_error(_HANDLER, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(sign, "?") for sign in error.object[error.start : error.end]), error.end
