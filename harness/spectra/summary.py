"""Means and medians over layers, with the number of those that had to be left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

VALUES: Final = ("alpha", "sigma_max", "fro")


def summarize(
    table: pd.DataFrame, by: Sequence[str] = ("optimizer",), *, small_n: bool = False
) -> pd.DataFrame:
    """Mean, median and number of alpha, sigma_max and fro over the layers of each group.

    A mean of alpha over unlike shapes says nothing by itself: compare groups of the same shapes only. Beside
    a mean of ks read the median, because one layer may decide the mean.

    Args:
        table: rows of `layer_table`, with the columns of `by`.
        by: columns that make the groups.
        small_n: count alpha of layers with fewer than 50 eigenvalues, too.

    Returns:
        a row per group in the order of their first rows, with the columns of `by` and, for each value v,
        v_mean, v_median, v_n and v_n_excluded. Excluded are nan and inf, and of alpha those with the flag
        "small_n".
    """
    import pandas as pd

    groups = table.groupby(list(by), sort=False, dropna=False)
    rows = [
        {**dict(zip(by, key, strict=True)), **_statistics(group, small_n)}
        for key, group in ((key if isinstance(key, tuple) else (key,), group) for key, group in groups)
    ]
    columns = [f"{value}_{what}" for value in VALUES for what in ("mean", "median", "n", "n_excluded")]
    return pd.DataFrame(rows, columns=[*by, *columns])


def _statistics(group: pd.DataFrame, small_n: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for value in VALUES:
        numbers = group[value].to_numpy(dtype=float)
        counted = np.isfinite(numbers)
        if value == "alpha" and not small_n:
            counted &= np.array(["small_n" not in flags for flags in group["flags"]], dtype=bool)
        kept = numbers[counted]
        found |= {
            f"{value}_mean": float(kept.mean()) if len(kept) else float("nan"),
            f"{value}_median": float(np.median(kept)) if len(kept) else float("nan"),
            f"{value}_n": len(kept),
            f"{value}_n_excluded": len(numbers) - len(kept),
        }
    return found
