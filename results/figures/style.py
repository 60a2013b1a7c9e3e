"""How the figures look: colour, marker and dashes of each optimizer, marks, and plain numbers on log axes."""

from __future__ import annotations

import zlib
from typing import Any

# Per optimizer: index into the colour-blind palette, marker, dashes. Fixed, so that figures can be compared.
_SOLID, DASHED, _DOTTED = "-", (0, (4, 1.5)), (0, (1, 1.2))
_STYLES: dict[str, tuple[int, str, Any]] = {
    "adam": (0, "v", DASHED),
    "adamw": (0, "o", _SOLID),
    "sgdm": (7, "s", _SOLID),
    "muon": (2, "^", _SOLID),
    "muon_svd": (2, "v", DASHED),
    "htmuon": (3, "D", _SOLID),
    "htmuon_ns": (1, "P", _SOLID),
    "htmuon_ht": (4, "X", _SOLID),
    "htmuon_stream": (5, "<", _SOLID),
    "htmuon_mix": (6, ">", _SOLID),
    "soft_muon": (0, "P", _DOTTED),
    "contra_muon": (1, "X", _DOTTED),
    "dynmuon": (5, "*", _DOTTED),
    "soft_polar": (7, "<", _DOTTED),
    "normuon": (9, "^", _SOLID),
    "htmuon_normuon": (9, "D", DASHED),
    "htmuon_ht_normuon": (4, "D", DASHED),
    "adamuon": (8, "^", _SOLID),
    "htmuon_adamuon": (8, "D", DASHED),
    "mars": (5, "h", DASHED),
    "soap": (6, "s", DASHED),
    "cautious": (1, "o", DASHED),
    "cosmos": (7, "p", DASHED),
    "galore": (3, "s", _DOTTED),
    "sophia": (2, "*", _DOTTED),
}
GREY = "0.35"
RING = {
    "marker": "o",
    "markersize": 11,
    "markerfacecolor": "none",
    "markeredgewidth": 1.4,
    "linestyle": "none",
}
CROSS = {"marker": "x", "markersize": 7, "markeredgewidth": 2, "linestyle": "none"}


def optimizer_style(optimizer: str) -> dict[str, Any]:
    """Colour, marker and dashes of an optimizer; one that is not in the table gets its own by its name."""
    import seaborn as sns

    number = zlib.crc32(optimizer.encode())
    colour, marker, dashes = _STYLES.get(optimizer, (number % 10, "ov^<>sPXDh"[number // 10 % 10], DASHED))
    return {"color": sns.color_palette("colorblind")[colour], "marker": marker, "linestyle": dashes}


def label_log(axis: Any) -> None:
    """Plain numbers on a logarithmic axis, 0.01 rather than a power of ten; more of them on a short one."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 50 else (1,)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())
