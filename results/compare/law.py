"""Laws of loss over length, L = E + A x^-b, of one set of losses and of many draws at once.

For a given exponent the law is linear in all else, so the fit is a search along one line: for the exponent
whose weighted least squares leave the least (variable projection). A grid serves all draws at once, then the
vertex of the parabola through its three best; finer grids follow for the first draw, which was measured.

Source: Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear least squares problems whose
variables separate, SIAM Journal on Numerical Analysis 10, 1973; Hoffmann et al., Training compute-optimal
large language models, arXiv:2203.15556, 2022, for the form of the law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from htbench.results.compare.ranges import Array

EXPONENTS = np.geomspace(0.01, 4.0, 300)  # the fit finds none beyond
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Law:
    """L = E + A (x / reference)^-b; the last axis has the draws, the one before it groups of points.

    Attributes:
        exponent: b, which all points share.
        floors: E.
        scales: A, the part of the loss above E at the reference.
        reference: an x in the middle of the points.
        points: how many losses it is fitted to.
        ends: of each group its least and largest x.
    """

    exponent: Array
    floors: Array
    scales: Array
    reference: float
    points: int
    ends: Sequence[tuple[float, float]]

    @property
    def unknowns(self) -> int:
        """How many numbers are fitted: b, and E and A of each group."""
        return 1 + 2 * len(self.floors)

    def loss(self, x: float | Array, group: int) -> Array:
        """The loss at x by the law of a group."""
        power: Array = (x / self.reference) ** -self.exponent
        losses: Array = self.floors[group] + self.scales[group] * power
        return losses

    def inverse(self, losses: Array, group: int) -> Array:
        """The x at which the law has a loss: infinite below E, not a number where the law does not fall."""
        share = (losses - self.floors[group]) / self.scales[group]
        with np.errstate(over="ignore"):
            x = self.reference * np.maximum(share, _TINY) ** (-1 / self.exponent)
        return np.where(self.scales[group] > 0, np.where(share > 0, x, np.inf), np.nan)


def fit_law(x: Array, groups: Sequence[int], losses: Array, variances: Array) -> Law:
    """The law of some points.

    Args:
        x: (points,), tokens.
        groups: of each point the group that shares E and A, from 0 on; all share b.
        losses: (points, draws); the first draw is what was measured.
        variances: (points,), of the losses.

    Raises:
        ValueError: there are fewer points than unknowns.
    """
    of_group = np.eye(max(groups) + 1)[list(groups)]
    split, unknowns = of_group.shape[1], 2 * of_group.shape[1]
    if len(x) <= unknowns:
        raise ValueError(f"A law of {unknowns + 1} unknowns needs as many losses, not {len(x)}.")
    logs = np.log(x)
    reference = float(np.exp(logs.mean()))
    logs = logs - logs.mean()
    root = 1 / np.sqrt(variances)
    middle = losses.mean(axis=0)  # taken off, so that small residuals keep their digits
    weighted = root[:, None] * (losses - middle)

    def matrix(exponents: Array) -> Array:
        powers = np.exp(-exponents[:, None] * logs)[:, :, None] * of_group
        both = [np.broadcast_to(of_group, (len(exponents), *of_group.shape)), powers]
        design: Array = root[:, None] * np.concatenate(both, axis=2)  # draws, points, unknowns
        return design

    def misfits(exponents: Array, y: Array) -> Array:
        rests = np.linalg.qr(matrix(exponents), mode="complete")[0][:, :, unknowns:]
        return np.array([((rest.T @ y) ** 2).sum(axis=0) for rest in rests])

    misfit = misfits(EXPONENTS, weighted)  # exponents by draws
    best = misfit.argmin(axis=0).clip(1, len(EXPONENTS) - 2)
    below, at, above = (np.take_along_axis(misfit, best[None] + step, 0)[0] for step in (-1, 0, 1))
    to_vertex = (below - above) / np.maximum(2 * (below - 2 * at + above), _TINY)
    exponent = EXPONENTS[best] * (EXPONENTS[1] / EXPONENTS[0]) ** to_vertex.clip(-1, 1)
    ends = EXPONENTS[best[0] + [-1, 1]]
    while np.ptp(ends) > 1e-10:  # a round leaves an eighth of it
        near = np.linspace(ends[0], ends[1], 17)
        ends = near[misfits(near, weighted[:, :1])[:, 0].argmin().clip(1, 15) + [-1, 1]]
    exponent[0] = ends.mean()
    design = matrix(exponent)
    across = design.transpose(0, 2, 1)
    solution = np.linalg.solve(across @ design, across @ weighted.T[:, :, None])
    parts = solution[:, :, 0].T
    spans = [(float(x[members].min()), float(x[members].max())) for members in of_group.T.astype(bool)]
    return Law(exponent, parts[:split] + middle, parts[split:], reference, len(x), spans)
