"""The tidy frame as one of pandas, for tests that ask it questions."""

import pandas as pd

from htbench.results.frames.load import load_rows


def load_frame(store, sweeps=None):
    """Its rows, with plain types."""
    return pd.DataFrame(load_rows(store, sweeps))
