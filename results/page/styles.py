"""The colour and the dashes of each optimizer, those of the figures, as a browser takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from results.figures.style import optimizer_style

_LINE_WIDTH = 1.5  # pixels; matplotlib counts dashes in widths of the line


def styles(optimizers: Iterable[str]) -> dict[str, dict[str, Any]]:
    """By optimizer: `colour` as #rrggbb and `dash` as pixels on and off, empty for a solid line."""
    from matplotlib.colors import to_hex

    found = {name: optimizer_style(name) for name in sorted(optimizers)}
    return {
        name: {"colour": to_hex(style["color"]), "dash": _dash(style["linestyle"])}
        for name, style in found.items()
    }


def _dash(linestyle: Any) -> list[float]:
    return [] if isinstance(linestyle, str) else [_LINE_WIDTH * length for length in linestyle[1]]
