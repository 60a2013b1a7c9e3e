"""What tests ask of spectra beside the one fit that the harness takes: all of them, and layers as a table."""

import dataclasses

import numpy as np
import pandas as pd

from htbench.harness.spectra import tail
from htbench.harness.spectra.layers import LayerSpectrum, measure


def ks_scan(evals):
    """Exponents and Kolmogorov-Smirnov distances, (N - 1,) each, with all eigenvalues but the last as xmin.

    The N eigenvalues are positive and ascend; the exponent is inf where all of a tail is one value.
    """
    logs = np.log(np.asarray(evals, dtype=np.float64))
    slopes = tail._slopes(logs)[:-1]
    return 1 + slopes, tail._distances(logs, slopes)


def layer_table(weights, **options):
    """`measure` as a table, one row per layer, with the attributes of `LayerSpectrum` as columns."""
    columns = [field.name for field in dataclasses.fields(LayerSpectrum)]
    rows = [dataclasses.asdict(layer) for layer in measure(weights, **options)]
    return pd.DataFrame(rows, columns=columns)
