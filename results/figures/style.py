"""How the figures look: colour, marker and dashes of each optimizer, marks, and plain numbers on log axes."""

from __future__ import annotations

import zlib
from typing import Any

# Indigo, wine and olive of Paul Tol's "muted" scheme, which colour-blind people tell apart, too.
_MORE_COLOURS = ("#332288", "#882255", "#999933")
# Per optimizer: index into the colour-blind palette and the above, marker, dashes. Fixed, so that figures can
# be compared.
_SOLID, DASHED, DOTTED = "-", (0, (4, 1.5)), (0, (1, 1.2))
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
    "soft_muon": (0, "P", DOTTED),
    "contra_muon": (1, "X", DOTTED),
    "dynmuon": (5, "*", DOTTED),
    "soft_polar": (7, "<", DOTTED),
    "normuon": (9, "v", _SOLID),
    "htmuon_normuon": (10, "s", DASHED),
    "htmuon_ht_normuon": (11, "d", DASHED),
    "adamuon": (12, "<", _SOLID),
    "htmuon_adamuon": (12, ">", DASHED),
    "mars": (5, "h", DASHED),
    "soap": (6, "s", DASHED),
    "cautious": (1, "o", DASHED),
    "cosmos": (7, "p", DASHED),
    "galore": (3, "s", DOTTED),
    "sophia": (2, "*", DOTTED),
}
# What the paper calls them. Its text also has "HTMuon_NS" and so on for what are names of algorithms here.
_NAMES = {
    "adam": "Adam",
    "adamw": "AdamW",
    "sgdm": "SGD",
    "muon": "Muon",
    "muon_svd": "Muon_SVD",
    "htmuon": "HTMuon",
    "htmuon_ns": "HTMuon_NS",
    "htmuon_ht": "HTMuon_HT",
    "normuon": "NorMuon",
    "htmuon_normuon": "HTMuon+NorMuon",
    "htmuon_ht_normuon": "HTMuon_HT+NorMuon",
    "adamuon": "AdaMuon",
    "htmuon_adamuon": "HTMuon+AdaMuon",
    "mars": "MARS",
    "soap": "SOAP",
    "cautious": "Cautious",
    "cosmos": "COSMOS",
    "galore": "GaLore",
    "sophia": "Sophia",
}
_LONGEST, _START = 26, 10  # letters of a name in a picture, and those before the gap in a longer one
# Of bars that stand beside each other in a figure of the paper, no two have the same.
_HATCHES = {
    "adam": "--",
    "adamw": "",
    "sgdm": "++",
    "muon": "",
    "muon_svd": "////",
    "htmuon": "\\\\\\\\",
    "htmuon_ns": "||",
    "htmuon_ht": "xx",
    "normuon": "--",
    "htmuon_normuon": "xx",
    "htmuon_ht_normuon": "++",
    "adamuon": "..",
    "mars": "//",
    "soap": "--",
    "cautious": "++",
    "cosmos": "xx",
    "galore": "||",
    "sophia": "..",
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
    from matplotlib.colors import to_rgb

    number = zlib.crc32(optimizer.encode())
    palette = [*sns.color_palette("colorblind"), *map(to_rgb, _MORE_COLOURS)]
    rest, by_name = divmod(number, len(palette))
    of_others = (by_name, "ov^<>sPXDh"[rest % 10], (DASHED, DOTTED)[rest // 10 % 2])
    colour, marker, dashes = _STYLES.get(optimizer, of_others)
    return {"color": palette[colour], "marker": marker, "linestyle": dashes}


def shaded(colour: Any, shade: float) -> Any:
    """A colour mixed with black: a shade of 0 leaves it as it is, 1 is black."""
    from matplotlib.colors import to_rgb

    return tuple((1 - shade) * part for part in to_rgb(colour))


def lightened(colour: Any) -> Any:
    """A colour mixed with much white."""
    from matplotlib.colors import to_rgb

    return tuple(0.25 * part + 0.75 for part in to_rgb(colour))


def hatch(optimizer: str) -> str:
    """The hatch of an optimizer's bars, which tells them apart in grey."""
    return _HATCHES.get(optimizer, "..")


def display_name(optimizer: str) -> str:
    """The name of an optimizer as the paper writes it; one that it does not have keeps its own.

    A version of the code stays: "muon (revision 1)" is "Muon (revision 1)". Of a long name, which another
    trainer may have given, the middle is left out; the CSV file has it whole.
    """
    name, _, version = optimizer.partition(" (")
    shown = _NAMES.get(name, name)
    if len(shown) > _LONGEST:
        shown = f"{shown[:_START]}…{shown[_START + 1 - _LONGEST :]}"
    return f"{shown} ({version}" if version else shown


def label_log(axis: Any) -> None:
    """Plain numbers on a logarithmic axis, 0.01 rather than a power of ten; more of them on a short one."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 50 else (1,)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())
