"""The figures: seaborn on matplotlib, imported only when something is drawn. Same data, same bytes."""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from harness.store import Store
from results.figures import panels as curves
from results.figures.panels import Line, LossPanel, Panel

REVISION = 2  # raised when the drawing changes, so that old pictures are drawn again

# Per optimizer: index into the colour-blind palette, marker, dashes. Fixed, so that figures can be compared.
_SOLID, _DASHED, _DOTTED = "-", (0, (4, 1.5)), (0, (1, 1.2))
_STYLES: dict[str, tuple[int, str, Any]] = {
    "adam": (0, "v", _DASHED),
    "adamw": (0, "o", _SOLID),
    "sgdm": (7, "s", _SOLID),
    "muon": (2, "^", _SOLID),
    "muon_svd": (2, "v", _DASHED),
    "htmuon": (3, "D", _SOLID),
    "htmuon_ns": (1, "P", _SOLID),
    "htmuon_ht": (4, "X", _SOLID),
    "htmuon_stream": (5, "<", _SOLID),
    "htmuon_mix": (6, ">", _SOLID),
    "normuon": (9, "^", _SOLID),
    "htmuon_normuon": (9, "D", _DASHED),
    "htmuon_ht_normuon": (4, "D", _DASHED),
    "adamuon": (8, "^", _SOLID),
    "htmuon_adamuon": (8, "D", _DASHED),
    "mars": (5, "h", _DASHED),
    "soap": (6, "s", _DASHED),
    "cautious": (1, "o", _DASHED),
    "cosmos": (7, "p", _DASHED),
    "galore": (3, "s", _DOTTED),
    "sophia": (2, "*", _DOTTED),
}
_PANEL_SIZE = (3.6, 2.9)  # inches
_MOST_COLUMNS = 3
_MOST_RATES = 6  # that find room as labels of an axis
_START = 0.05  # of a run: the fall before it would flatten all that matters, and is cut off
_MANY_TIMES = 8  # a ratio of values above which only a logarithmic axis shows them all
_GREY = "0.35"
_RING = {
    "marker": "o",
    "markersize": 11,
    "markerfacecolor": "none",
    "markeredgewidth": 1.4,
    "linestyle": "none",
}
_CROSS = {"marker": "x", "markersize": 7, "markeredgewidth": 2, "linestyle": "none"}
# Nothing that changes from day to day: the same figure is the same file.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@dataclass(frozen=True)
class Figure:
    """How a figure is made.

    Attributes:
        panels: its data, one entry per workload: plain values, found quickly and without matplotlib.
        draw: draws one panel into axes; returns what was wrong with the files it read.
    """

    panels: Callable[[pd.DataFrame, Store], Sequence[Panel | LossPanel]]
    draw: Callable[[Any, Any, Store], list[str]]


def paint(
    figure: Figure, panels: Sequence[Panel | LossPanel], store: Store
) -> tuple[dict[str, bytes], list[str]]:
    """Draw all panels.

    Returns:
        the files' contents by suffix, and what was wrong with the files that the figure was drawn from.
    """
    import matplotlib.style
    import seaborn as sns
    from matplotlib.figure import Figure as Canvas

    look = sns.axes_style("ticks") | sns.plotting_context("paper", font_scale=1.05)
    fixed = {"font.family": "DejaVu Sans", "pdf.fonttype": 42, "axes.grid": True, "grid.color": "0.92"}
    with matplotlib.style.context(["default", look | fixed]):
        columns = min(len(panels), _MOST_COLUMNS)
        rows = math.ceil(len(panels) / columns)
        size = (_PANEL_SIZE[0] * columns, _PANEL_SIZE[1] * rows + 0.4)
        canvas = Canvas(figsize=size, layout="constrained")
        axes = list(canvas.subplots(rows, columns, squeeze=False).flat)
        warnings = []
        for ax, panel in zip(axes, panels, strict=False):
            warnings += figure.draw(ax, panel, store)
            _entitle(ax, panel.title, panel.subtitle)
            sns.despine(ax=ax)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        _explain_marks(axes[-1], [panel for panel in panels if isinstance(panel, Panel)])
        _add_legend(canvas, axes)
        return {suffix: _save(canvas, suffix) for suffix in _METADATA}, warnings


def _save(canvas: Any, suffix: str) -> bytes:
    file = io.BytesIO()
    canvas.savefig(file, format=suffix, dpi=200, metadata=_METADATA[suffix])
    return file.getvalue()


def _entitle(ax: Any, title: str, subtitle: str) -> None:
    ax.set_title(title, pad=7 + 10 * len(subtitle.splitlines()))
    ax.annotate(
        subtitle, (0.5, 1), (0, 5), "axes fraction", "offset points", ha="center", size=7.5, color=_GREY
    )


def _add_legend(canvas: Any, axes: Sequence[Any]) -> None:
    """One legend for all panels, below them: it covers nothing."""
    entries = {
        label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    entry = 0.5 + 0.08 * max(map(len, entries), default=0)  # inches that the widest entry takes
    columns = max(1, int(canvas.get_figwidth() / entry))
    canvas.legend(entries.values(), entries, loc="outside lower center", ncols=columns, frameon=False)


def _style(optimizer: str) -> dict[str, Any]:
    """Colour, marker and dashes of an optimizer; one that is not in the table gets its own by its name."""
    import seaborn as sns

    number = zlib.crc32(optimizer.encode())
    colour, marker, dashes = _STYLES.get(optimizer, (number % 10, "ov^<>sPXDh"[number // 10 % 10], _DASHED))
    return {"color": sns.color_palette("colorblind")[colour], "marker": marker, "linestyle": dashes}


# --- the panels ---


def _draw_lr(ax: Any, panel: Panel, _: Store) -> list[str]:
    ax.set_xscale("log")
    _draw_lines(ax, panel)
    _label_rates(ax, panel)
    ax.set_xlabel("peak learning rate")
    return []


def _label_rates(ax: Any, panel: Panel) -> None:
    """The rates that were tried, where their labels fit: few, short (not drawn by a search), well apart."""
    rates = sorted({x for line in panel.lines for x in (*line.diverged, *(x for x, _ in line.points))})
    _label_log(ax.xaxis)
    if not 1 < len(rates) <= _MOST_RATES or any(len(f"{rate:g}") > 6 for rate in rates):
        return
    apart = min(high / low for low, high in pairwise(rates))
    if math.log(apart) / math.log(rates[-1] / rates[0]) > 0.9 / _MOST_RATES:
        ax.set_xticks(rates)
        ax.set_xticks([], minor=True)


def _label_log(axis: Any) -> None:
    """Plain numbers on a logarithmic axis, 0.01 rather than a power of ten; more of them on a short one."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 50 else (1,)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _draw_p(ax: Any, panel: Panel, _: Store) -> list[str]:
    from matplotlib.ticker import StrMethodFormatter

    _draw_lines(ax, panel)
    ax.set_xlabel("p (power of the singular values)")
    ax.set_xticks(sorted({x for line in panel.lines for x in (*line.diverged, *(x for x, _ in line.points))}))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    if panel.reference is not None:
        optimizer, level = panel.reference
        colour = _style(optimizer)["color"]
        ax.axhline(level, color=colour, linestyle=_DASHED, label=f"{optimizer}, best lr", zorder=1)
    return []


def _draw_lines(ax: Any, panel: Panel) -> None:
    import seaborn as sns

    for line in panel.lines:
        x, y = [x for x, _ in line.points], [y for _, y in line.points]
        style = _style(line.optimizer) | {"label": line.optimizer, "markersize": 5, "markeredgewidth": 0.6}
        if line.points:
            sns.lineplot(x=x, y=y, ax=ax, legend=False, **style)
        else:
            ax.plot([], [], **style)  # seaborn would leave it out of the legend, where its crosses need it
        _mark(ax, panel, line, style["color"])
    ax.margins(0.08)
    ax.set_ylabel(f"validation {panel.metric}")
    values = [y for line in panel.lines for _, y in line.points]
    if not panel.higher_is_better and values and max(values) > _MANY_TIMES * min(values):
        ax.set_yscale("log")
        _label_log(ax.yaxis)


def _mark(ax: Any, panel: Panel, line: Line, colour: Any) -> None:
    """A ring around the chosen point; at the bad edge a cross for each x at which all diverged, stacked."""
    for x, y in line.points:
        if x == line.chosen:
            ax.plot([x], [y], **_RING, markeredgecolor=colour)
    before = panel.lines[: panel.lines.index(line)]
    for x in line.diverged:
        depth = 0.03 + 0.06 * sum(x in other.diverged for other in before)
        place = {"transform": ax.get_xaxis_transform(), "clip_on": False}
        ax.plot(
            [x], [depth if panel.higher_is_better else 1 - depth], **_CROSS, **place, markeredgecolor=colour
        )


def _explain_marks(ax: Any, panels: Sequence[Panel]) -> None:
    """Legend entries in grey, since every optimizer has its own colour."""
    if any(line.chosen is not None for panel in panels for line in panel.lines):
        ax.plot([], [], **_RING, markeredgecolor=_GREY, label="chosen")
    if any(line.diverged for panel in panels for line in panel.lines):
        ax.plot([], [], **_CROSS, markeredgecolor=_GREY, label="diverged")


def _draw_loss(ax: Any, panel: LossPanel, store: Store) -> list[str]:
    import seaborn as sns

    read = curves.read_curves(panel, store)
    starts, ends = [], []
    for optimizer, losses in read.losses.items():
        style = _style(optimizer) | {"marker": None}
        mean = losses.mean(axis=1)
        sns.lineplot(x=mean.index, y=mean, ax=ax, label=optimizer, legend=False, linewidth=1.4, **style)
        low, high = losses.min(axis=1), losses.max(axis=1)
        ax.fill_between(mean.index, low, high, color=style["color"], alpha=0.2, linewidth=0)
        starts.append(mean[mean.index >= mean.index[-1] * _START].iloc[0])
        ends.append(low.min())
    if starts and 0 < min(ends) < max(starts) / _MANY_TIMES:
        ax.set_yscale("log")
        ax.set_ylim(0.8 * min(ends), 1.2 * max(starts))
        _label_log(ax.yaxis)
    elif starts:
        margin = 0.05 * (max(starts) - min(ends))
        ax.set_ylim(min(ends) - margin, max(starts) + margin)
    ax.set_xlabel("step")
    ax.set_ylabel(f"training loss ({panel.unit})")
    return read.warnings


FIGURES = {
    "lr_curve": Figure(curves.lr_curve, _draw_lr),
    "p_curve": Figure(curves.p_curve, _draw_p),
    "loss": Figure(curves.loss, _draw_loss),
}
