"""Text, data and pictures as they stand in the page, and the policy that keeps all else out.

A name or a note may hold anything, `</script>` among it. Text is escaped by `html.escape`. Data are JSON
without `<`, `>` and `&`. The browser runs only scripts and styles whose hash the policy names.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

_STATIC = Path(__file__).parent / "static"
STYLES = ("uPlot.min.css", "report.css")
SCRIPTS = ("uPlot.iife.min.js", "tables.js", "curves.js", "runs.js")
_HIDDEN = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}


def data(name: str, value: Any) -> str:
    """Plain values as an element that scripts read by its id and that nothing executes."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_HIDDEN)
    return f'<script type="application/json" id="{name}">{text}</script>'


def picture(png: bytes) -> str:
    """A PNG as an address."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def width(png: bytes) -> int:
    """How wide a PNG is shown, in pixels of a page: sharp on screens with twice as many."""
    return int.from_bytes(png[16:20], "big") // 2


def head() -> str:
    """The policy and the style sheets."""
    styles = [static(name) for name in STYLES]
    scripts = [static(name) for name in SCRIPTS]
    policy = "; ".join(
        [
            "default-src 'none'",
            "img-src data:",
            f"style-src {' '.join(map(_hash, styles))}",
            f"script-src {' '.join(map(_hash, scripts))}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return "\n".join(
        [
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            *(f"<style>{style}</style>" for style in styles),
        ]
    )


def scripts() -> str:
    """The licence of what is not ours, and the scripts."""
    return "\n".join(
        [
            f"<!-- uPlot:\n{static('uPlot.LICENSE').strip()}\n-->",
            *(f"<script>{static(name)}</script>" for name in SCRIPTS),
        ]
    )


def static(name: str) -> str:
    """A file of the folder `static`, which holds ASCII only."""
    return (_STATIC / name).read_text(encoding="ascii")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
