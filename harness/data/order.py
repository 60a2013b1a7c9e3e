"""The order in which a run sees its training samples: a pure function of (data_seed, step).

It does not depend on world size, resumption or micro-batches.
"""

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
    return sharded_indices(np.array([0, size]), batch_size, seed, step)


def uniforms(shape: tuple[int, ...], seed: int, step: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1) for the samples of 0-based `step`, from Philox words of which no other draw knows."""
    key, counter = np.array([seed, step], dtype=np.uint64), np.array([0, 0, 0, 1], dtype=np.uint64)
    words = np.random.Philox(key=key, counter=counter).random_raw(math.prod(shape))
    return (words >> np.uint64(11)).astype(np.float64).reshape(shape) * 2.0**-53


def sharded_indices(starts: Indices, batch_size: int, seed: int, step: int) -> Indices:
    """Samples (batch_size,) of 0-based `step`, shuffled within each shard; the shards come in their order.

    A shard's order depends on no other shard, so a run sees the same samples however many are prepared
    beyond those that it reads. After the last shard comes the next epoch.

    Args:
        starts: the first sample of each shard, and the number of all, (shards + 1,).
        batch_size: samples of a global batch.
        seed: of the order.
        step: of the run.
    """
    at, end = step * batch_size, (step + 1) * batch_size
    parts = []
    while at < end:
        epoch, offset = divmod(at, int(starts[-1]))
        shard = int(np.searchsorted(starts, offset, side="right")) - 1
        first, size = int(starts[shard]), int(starts[shard + 1] - starts[shard])
        order = permutation(size, seed, epoch + (shard << 32))
        parts.append(first + order[offset - first : offset - first + end - at])
        at += len(parts[-1])
    return np.concatenate(parts)
