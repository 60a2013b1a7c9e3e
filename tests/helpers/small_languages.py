"""The paper's language models in miniature, which no scale ships: for tests of tables and figures.

`nano` and `quick` have the paper's images only. What tables do with perplexities, times, p and questions of a
small scale is tested on plans of all experiments, kept in `tests/golden/sweeps`; nothing of them is trained.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from htbench.harness.paper import experiments, scales
from htbench.results.tables import counted

PLANS = Path(__file__).parents[1] / "golden" / "sweeps"
_TWINS = {
    ("c4", "llama-60m"): ("pydocs", "llama-nano-60m"),
    ("c4", "llama-135m"): ("pydocs", "llama-nano-135m"),
    ("c4", "llama-350m"): ("pydocs", "llama-nano-350m"),
    ("c4", "llama-1b"): ("pydocs", "llama-nano-1b"),
    ("openwebtext", "gpt2-small"): ("pydocs", "gpt2-nano"),
}
_KEPT = counted.read_counted  # of the shipped scales, also where one of these is within another


@contextlib.contextmanager
def small_languages() -> Iterator[None]:
    """As long as it lasts, `nano` and `quick` have all of the paper's workloads."""
    whole = _TWINS | scales.twins("nano")
    own = _KEPT()
    with mock.patch.object(counted, "FILE", PLANS / "counted.csv"):
        own += _KEPT()
    experiments.places.cache_clear()
    with (
        mock.patch.dict(scales._TWINS, nano=whole, quick=whole),
        mock.patch.object(counted, "read_counted", lambda: own),
    ):
        yield
    experiments.places.cache_clear()


def plan(scale: str, experiment: str) -> Path:
    """The sweep file of an experiment: the one that is shipped, or the one that is kept here."""
    file = Path(scale) / f"{scale}-{experiment}.yaml"
    shipped = PLANS.parents[2] / "sweeps" / file
    return shipped if shipped.is_file() else PLANS / file
