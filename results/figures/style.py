"""How the figures look: colour, marker, dashes of each optimizer; numbers on logarithmic axes."""

import math
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from htbench.harness.show import numbers
from htbench.results.figures.kinds import PUBLISHED

# seaborn's colour-blind palette; then indigo, wine and olive of Paul Tol's "muted" scheme.
_PALETTE = (
    "#0173b2 #de8f05 #029e73 #d55e00 #cc78bc #ca9161 #fbafe4 #949494 #ece133 #56b4e9 #332288 #882255 #999933"
).split()
_SOLID, DASHED, DOTTED = "-", (0, (4, 1.5)), (0, (1, 1.2))
# Per optimizer: place in the palette, marker, dashes. Fixed, so that figures can be compared.
_LOOKS: dict[str, tuple[int, str, Any]] = {
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
    "scion": (11, "s", DOTTED),
    "polargrad": (12, "d", DOTTED),
    "aurora": (10, "p", DOTTED),
    "soap_muon": (6, "X", DOTTED),
    "kl_soap": (6, "v", DOTTED),
    "muown": (9, "^", DOTTED),
    "mars": (5, "h", DASHED),
    "soap": (6, "s", DASHED),
    "cautious": (1, "o", DASHED),
    "cosmos": (7, "p", DASHED),
    "galore": (3, "s", DOTTED),
    "sophia": (2, "*", DOTTED),
    "lion": (8, "D", DASHED),
    "signum": (8, "v", DOTTED),
    "ademamix": (9, "p", DASHED),
    "adopt": (10, "<", DOTTED),
    "schedule_free": (0, "h", DASHED),
    "prodigy": (4, "^", DOTTED),
}
_LONGEST, _START = 26, 10  # letters of a name in a picture, and those before the gap in a longer one
_THIN = "PX*"  # markers of which a white edge would leave little
_SHADES, _DASHES = (0.0, 0.4, 0.8), ("-", DASHED, DOTTED)  # of several series of one optimizer
GREY, AMBER = "0.35", "#a35200"  # of text; amber for what could change a conclusion
DRAWN_BY = "htbench figure"  # what a PNG and a PDF say of who made them
SMALL = 7  # points, the size of the smallest text


def optimizer_style(optimizer: str) -> dict[str, Any]:
    """Colour, marker and dashes of an optimizer; one that is not in the table gets its own by its name."""
    rest, by_name = divmod(zlib.crc32(optimizer.encode()), len(_PALETTE))
    of_others = (by_name, "ov^<>sPXDh"[rest % 10], (DASHED, DOTTED)[rest // 10 % 2])
    colour, marker, dashes = _LOOKS.get(optimizer, of_others)
    return {"color": _PALETTE[colour], "marker": marker, "linestyle": dashes}


def series_style(
    optimizer: str, source: str, variant: int | None = None, on_the_right: bool = False
) -> dict[str, Any]:
    """The look of a curve: open markers and thin lines for published values, grey on the right axis.

    Args:
        optimizer, source: whose values they are.
        variant: of several series of one optimizer, told apart by shade and dashes; None: it is alone.
        on_the_right: whether the right axis is its own.
    """
    style = optimizer_style(optimizer)
    colour, dashes = style["color"], style["linestyle"]
    if variant is not None:
        from matplotlib.colors import to_rgb

        colour = tuple((1 - _SHADES[variant % len(_SHADES)]) * part for part in to_rgb(colour))
        dashes = _DASHES[variant % len(_DASHES)]
    if on_the_right:
        colour, dashes = GREY, DOTTED
    light = source == PUBLISHED
    edge = colour if light or style["marker"] in _THIN else "white"
    return style | {
        "color": colour,
        "linestyle": dashes,
        "linewidth": 0.8 if light else 1.4,
        "markerfacecolor": "white" if light else colour,
        "markeredgecolor": edge,
        "markeredgewidth": 1.0 if light else 0.6,
    }


def display_name(optimizer: str) -> str:
    """The name of an optimizer as tables write it.

    Of a long one the middle is left out; the CSV file has it whole. A version of the code stays, as in "muon
    (revision 1)".
    """
    name, _, version = optimizer.partition(" (")
    short = f"{name[:_START]}…{name[_START + 1 - _LONGEST :]}" if len(name) > _LONGEST else name
    return f"{short} ({version}" if version else short


# --- logarithmic axes ---

_MOST_TICKS = 6


def label_log(axis: Any, tried: Sequence[float] = ()) -> None:
    """A few plain numbers on a logarithmic axis, 0.01 or 1M rather than a power of ten.

    Args:
        axis: of matplotlib.
        tried: values that are labelled instead, if they are few, far apart and short (not sampled ones).
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

    few = 1 < len(tried) <= _MOST_TICKS and all(len(f"{value:g}") <= 6 for value in tried)
    if few and math.log(min(high / low for low, high in pairwise(tried))) > (
        0.9 / _MOST_TICKS * math.log(tried[-1] / tried[0])
    ):
        locator: Any = FixedLocator(tried)
    else:
        low, high = sorted(axis.get_view_interval())
        if high < 8 * low:
            locator = MaxNLocator(_MOST_TICKS - 1, steps=[1, 2, 5, 10])
        else:
            locator = LogLocator(
                subs=(1, 2, 5) if high < 100 * low else (1, 3) if high < 1000 * low else (1,)
            )
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}" if x < 1e4 else numbers.count(x)))
