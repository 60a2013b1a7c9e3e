"""One more point beyond an edge, in words: could it change the winner of the table?"""

from __future__ import annotations

from collections.abc import Sequence

from harness.choice.edge import Edge
from results.compare import edges
from results.compare.edges import leader
from results.compare.select import Choice
from results.frames.metrics import Metric


def outlook(
    column: str, edge: Edge, choice: Choice, rivals: Sequence[Choice], axes: Sequence[str], metric: Metric
) -> str:
    """What to add to the footnote on an edge; empty for a search, at a legal end, and without rivals.

    Args:
        column: of the edge.
        edge: of the choice.
        choice: of one row.
        rivals: the choices of all rows, this one too.
        axes: the columns that were searched.
        metric: the validation metric by which settings are chosen.
    """
    others = [one for one in rivals if one is not choice and one.winner is not None]
    best = leader(rivals, metric)
    if edge.following is None or edge.place != "grid" or not others or best is None:
        return ""
    if leader([choice], metric) is None:
        return ""
    if choice is best:
        return "; it leads on validation already: one more point can't change the winner"
    point = edges.outlook(choice, best, column, axes, metric)
    must = f"it must gain {point.gap:.{metric.digits}f} to overtake {best.fixed['optimizer']} on validation"
    if point.gained is None:
        return f"; whether one more point would change the winner is not known: {must}"
    verdict = "could" if point.could_win else "would not"
    last = f"the last step of the grid gained {point.gained:.{metric.digits}f}"
    return f"; one more point {verdict} change the winner: {must}, {last}"


def hint(edge: Edge) -> str:
    """What to try next, in words; empty if no value is allowed."""
    if edge.following is None:
        return ""
    blocks = f"block{'s' if len(edge.blocks) > 1 else ''} {', '.join(edge.blocks)}"
    if edge.place == "range":
        side = "high" if edge.upwards else "low"
        return f"widen `{edge.setting}` to {side}: {edge.following:g} in {blocks}"
    more = " with its other chosen settings" if edge.is_listed else ""
    return f"add `{edge.setting}: {edge.following:g}`{more} to {blocks}"
