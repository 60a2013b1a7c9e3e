"""Laws of loss over length and over compute, L = E + A x^-b, of one set of losses and of many draws at once.

For a given exponent the law is linear in all else, so the fit is a search along one line: for the exponent
whose weighted least squares leave the least (variable projection). A grid serves all draws at once, then the
vertex of the parabola through its three best; `scipy` finishes that of the first draw, which was measured.

Source: Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear least squares problems whose
variables separate, SIAM Journal on Numerical Analysis 10, 1973; Hoffmann et al., Training compute-optimal
large language models, arXiv:2203.15556, 2022, for the form of the law.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from results.compare.ranges import Array

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
        misfit: the weighted sum of squares that the law leaves.
    """

    exponent: Array
    floors: Array
    scales: Array
    reference: float
    misfit: Array

    def loss(self, x: float | Array, floor: int, scale: int) -> Array:
        """The loss at x by the law of two groups."""
        power: Array = (x / self.reference) ** -self.exponent
        losses: Array = self.floors[floor] + self.scales[scale] * power
        return losses

    def inverse(self, losses: Array, floor: int, scale: int) -> Array:
        """The x at which the law has a loss: infinite below E, not a number where the law does not fall."""
        share = (losses - self.floors[floor]) / self.scales[scale]
        with np.errstate(over="ignore"):
            x = self.reference * np.maximum(share, _TINY) ** (-1 / self.exponent)
        return np.where(self.scales[scale] > 0, np.where(share > 0, x, np.inf), np.nan)


def fit(x: Array, floor_of: Sequence[int], scale_of: Sequence[int], losses: Array, variances: Array) -> Law:
    """The law of some points.

    Args:
        x: (points,), tokens or operations.
        floor_of, scale_of: of each point the group that shares E, and the one that shares A, from 0 on.
        losses: (points, draws); the first draw is what was measured.
        variances: (points,), of the losses.

    Raises:
        ValueError: there are fewer points than unknowns.
    """
    floors, scales = (np.eye(max(groups) + 1)[list(groups)] for groups in (floor_of, scale_of))
    split, unknowns = floors.shape[1], floors.shape[1] + scales.shape[1]
    if len(x) <= unknowns:
        raise ValueError(f"A law of {unknowns + 1} unknowns needs as many losses, not {len(x)}.")
    logs = np.log(x)
    reference = float(np.exp(logs.mean()))
    logs = logs - logs.mean()
    root = 1 / np.sqrt(variances)
    middle = losses.mean(axis=0)  # taken off, so that small residuals keep their digits
    seen = root[:, None] * (losses - middle)

    def matrix(exponents: Array) -> Array:
        powers = np.exp(-exponents[:, None] * logs)[:, :, None] * scales
        both = [np.broadcast_to(floors, (len(exponents), *floors.shape)), powers]
        made: Array = root[:, None] * np.concatenate(both, axis=2)  # draws, points, unknowns
        return made

    def misfits(exponents: Array, y: Array) -> Array:
        rests = np.linalg.qr(matrix(exponents), mode="complete")[0][:, :, unknowns:]
        return np.array([((rest.T @ y) ** 2).sum(axis=0) for rest in rests])

    left = misfits(EXPONENTS, seen)  # exponents by draws
    best = left.argmin(axis=0).clip(1, len(EXPONENTS) - 2)
    below, at, above = (np.take_along_axis(left, best[None] + step, 0)[0] for step in (-1, 0, 1))
    to_vertex = (below - above) / np.maximum(2 * (below - 2 * at + above), _TINY)
    exponent = EXPONENTS[best] * (EXPONENTS[1] / EXPONENTS[0]) ** to_vertex.clip(-1, 1)
    exponent[0] = _finished(lambda one: float(misfits(np.array([one]), seen[:, :1])[0, 0]), int(best[0]))
    design = matrix(exponent)
    across = design.transpose(0, 2, 1)
    found = np.linalg.solve(across @ design, across @ seen.T[:, :, None])
    rest = seen.T - (design @ found)[:, :, 0]
    parts = found[:, :, 0].T
    return Law(exponent, parts[:split] + middle, parts[split:], reference, (rest**2).sum(axis=1))


def _finished(misfit: Callable[[float], float], at: int) -> float:
    """The exponent with the least misfit between two of the grid."""
    from scipy import optimize

    ends = EXPONENTS[at - 1], EXPONENTS[at + 1]
    return float(optimize.minimize_scalar(misfit, bounds=ends, method="bounded", options={"xatol": 1e-10}).x)


@dataclass(frozen=True)
class Ratio:
    """A likelihood-ratio test of one exponent for all groups against one for each.

    Attributes:
        statistic: by how much the misfit falls with exponents of their own; chi^2 if one is enough.
        freedom: its degrees of freedom.
        p_value: small: the groups have different exponents.
    """

    statistic: float
    freedom: int
    p_value: float


def separate(law: Law, x: Array, group_of: Sequence[int], losses: Array, variances: Array) -> Ratio | None:
    """Whether groups that share E need an exponent each; None if there are too few points to ask, or groups.

    Args:
        law: of one exponent and one floor.
        x, group_of, losses, variances: (points,), as for `fit`; `group_of` is that of A. The variances are
            taken for known.
    """
    from scipy import optimize, special

    groups, at = len(law.scales), list(group_of)
    if groups < 2 or len(x) < 2 * groups + 1:
        return None
    logs = np.log(x / law.reference)

    def rest(unknowns: Array) -> Array:
        scales, exponents = unknowns[1 : groups + 1][at], unknowns[groups + 1 :][at]
        found: Array = (losses - unknowns[0] - scales * np.exp(-exponents * logs)) / np.sqrt(variances)
        return found

    start = np.array([law.floors[0, 0], *law.scales[:, 0], *[law.exponent[0]] * groups])
    found = optimize.least_squares(rest, start, x_scale="jac", xtol=1e-10, ftol=1e-10, gtol=1e-10)
    statistic = max(0.0, float(law.misfit[0]) - 2 * float(found.cost))
    return Ratio(statistic, groups - 1, float(special.chdtrc(groups - 1, statistic)))
