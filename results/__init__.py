"""From plans and records to a tidy frame, and from there to tables and figures. Never imports torch.

For notebooks: `frame(root)`, `curve(root, key)` and `spectra(root, key)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["curve", "frame", "spectra"]


def frame(root: Path | str, sweeps: str | Iterable[str] | None = None) -> pd.DataFrame:
    """All points of some sweeps as a tidy frame: one row per point, whatever became of its run.

    docs/results.md has a table of the columns, each with its type, which does not depend on the runs: words
    are Python strings (empty: none), numbers float64 (missing: NaN), whole numbers Int64, yes or no boolean
    (missing: NA), times datetime64[ns, UTC] (missing: NaT). No row is selected: the column `stage` separates
    the runs of a search from those that are reported.

    Args:
        root: the store.
        sweeps: a name or a sweep file, or several; None means all, and the runs that no sweep plans.

    Raises:
        harness.errors.UsageError: no such store or sweep.
    """
    from htbench.harness.errors import UsageError
    from htbench.harness.store import Store
    from htbench.harness.store.naming import names
    from htbench.results.frames.load import load_rows
    from htbench.results.frames.typed import typed

    if not Path(root).is_dir():
        raise UsageError(f"There is no store '{root}'.")
    words = [sweeps] if isinstance(sweeps, str) else sweeps
    return typed(load_rows(Store(root), None if words is None else names(words, Path(root))))


def curve(root: Path | str, key: str) -> pd.DataFrame:
    """The training curve of a run: one row per step (the index), one column per metric.

    `loss` (training, before the update) and `lr` have a value at every step. `val_*` and `test_*` have one
    where the model was evaluated, and NaN elsewhere. The curve of an unfinished run ends at its last step.

    Args:
        root: the store.
        key: 12 hex digits, the column `key` of `frame`.

    Raises:
        harness.errors.UsageError: there is no such run, or it has no curve.
    """
    import pandas as pd

    from htbench.harness.errors import UsageError
    from htbench.harness.store import Store
    from htbench.harness.store.curve import read

    path = Store(root).files(key).metrics
    rows = read(path)
    if not rows:
        raise UsageError(f"The run '{key}' has no curve: there is nothing in '{path}'.")
    return pd.DataFrame(rows).groupby("step").first()  # an evaluation has a row of its own


def spectra(root: Path | str, key: str) -> pd.DataFrame:
    """What a run has recorded of singular values: one row per step and layer, in the order of the model.

    docs/spectra.md explains the columns. Those of the weights (`alpha`, `sigma_max`, `flags` ...) are NaN at
    steps whose weights were not measured. `update` and `momentum` are lists of singular values, descending.

    Args:
        root: the store.
        key: 12 hex digits, the column `key` of `frame`.

    Raises:
        harness.errors.UsageError: there is no such run, or it has recorded none.
    """
    import pandas as pd

    from htbench.harness.errors import UsageError
    from htbench.harness.store import Store
    from htbench.harness.store.curve import read

    path = Store(root).files(key).spectra
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    for row in read(path):
        if "layer" in row:
            rows.setdefault((row["step"], row["layer"]), {}).update(row)
    if not rows:
        raise UsageError(
            f"The run '{key}' has recorded no spectra: there is nothing in '{path}'; see spectra.every."
        )
    return pd.DataFrame(list(rows.values()))
