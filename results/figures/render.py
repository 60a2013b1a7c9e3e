"""A whole figure as the contents of its files. Same data, same bytes; matplotlib is imported when needed."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

from harness.store import Store
from results.figures.cost_panels import CostPanel
from results.figures.draw import explain_marks
from results.figures.loss_panels import LossPanel
from results.figures.panels import Panel
from results.figures.registry import Figure
from results.figures.style import GREY

REVISION = 2  # raised when the drawing changes, so that old pictures are drawn again

_PANEL_SIZE = (3.6, 2.9)  # inches
_MOST_COLUMNS = 3
# Nothing that changes from day to day: the same figure is the same file.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def render(
    figure: Figure, panels: Sequence[Panel | LossPanel | CostPanel], store: Store
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
        warnings = _fill(axes, figure, panels, store)
        _add_legend(canvas, axes)
        return {suffix: _save(canvas, suffix) for suffix in _METADATA}, warnings


def _fill(
    axes: Sequence[Any], figure: Figure, panels: Sequence[Panel | LossPanel | CostPanel], store: Store
) -> list[str]:
    """Draw each panel into its axes and hide the axes that are left; returns the warnings."""
    import seaborn as sns

    warnings = []
    for ax, panel in zip(axes, panels, strict=False):
        warnings += figure.draw(ax, panel, store)
        _entitle(ax, panel.title, panel.subtitle)
        sns.despine(ax=ax)
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    explain_marks(axes[-1], [panel for panel in panels if isinstance(panel, Panel)])
    return warnings


def _save(canvas: Any, suffix: str) -> bytes:
    file = io.BytesIO()
    canvas.savefig(file, format=suffix, dpi=200, metadata=_METADATA[suffix])
    return file.getvalue()


def _entitle(ax: Any, title: str, subtitle: str) -> None:
    ax.set_title(title, pad=7 + 10 * len(subtitle.splitlines()))
    ax.annotate(
        subtitle, (0.5, 1), (0, 5), "axes fraction", "offset points", ha="center", size=7.5, color=GREY
    )


def _add_legend(canvas: Any, axes: Sequence[Any]) -> None:
    """One legend for all panels, below them: it covers nothing."""
    entries = {
        label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    entry = 0.5 + 0.08 * max(map(len, entries), default=0)  # inches that the widest entry takes
    columns = max(1, int(canvas.get_figwidth() / entry))
    canvas.legend(entries.values(), entries, loc="outside lower center", ncols=columns, frameon=False)
