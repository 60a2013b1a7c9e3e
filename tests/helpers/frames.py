"""The tidy frame as one of pandas, and the panels of figures, for tests that ask them questions."""

import pandas as pd

from htbench.results.compare.view import View
from htbench.results.figures.registry import FIGURES
from htbench.results.frames.load import load_rows


def load_frame(store, sweeps=None):
    """Its rows, with plain types."""
    return pd.DataFrame(load_rows(store, sweeps))


def plot(*names):
    """Of each figure what makes its panels of the runs in a frame."""
    return [lambda frame, store, name=name: FIGURES[name].sweeps(View(frame, store=store)) for name in names]
