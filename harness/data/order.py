"""The order in which a run sees its training samples: a pure function of (data_seed, step).

It does not depend on world size, resumption or micro-batches.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


@lru_cache(maxsize=2)  # a batch may straddle two epochs
def permutation(size: int, seed: int, epoch: int) -> Indices:
    """A permutation of range(size) for one epoch.

    It sorts raw Philox words (Salmon et al., 2011) since numpy promises that those never change between its
    versions, which it does not promise of `Generator.permutation`.
    """
    words = np.random.Philox(key=np.array([seed, epoch], dtype=np.uint64)).random_raw(size)
    order = np.argsort(words, kind="stable")
    order.flags.writeable = False
    return order


def batch_indices(size: int, batch_size: int, seed: int, step: int) -> Indices:
    """Samples (batch_size,) of 0-based `step`: a run's i-th is the (i mod size)-th of epoch i div size."""
    at, end = step * batch_size, (step + 1) * batch_size
    parts = []
    while at < end:
        epoch, offset = divmod(at, size)
        parts.append(permutation(size, seed, epoch)[offset : offset + end - at])
        at += len(parts[-1])
    return np.concatenate(parts)


def uniforms(shape: tuple[int, ...], seed: int, step: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1) for the samples of 0-based `step`, from Philox words of which no other draw knows."""
    key, counter = np.array([seed, step], dtype=np.uint64), np.array([0, 0, 0, 1], dtype=np.uint64)
    words = np.random.Philox(key=key, counter=counter).random_raw(math.prod(shape))
    return (words >> np.uint64(11)).astype(np.float64).reshape(shape) * 2.0**-53
