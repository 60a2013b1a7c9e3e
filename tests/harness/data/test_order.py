"""The order of samples: pure, complete, and the same for ever."""

import numpy as np
import pytest

from htbench.harness.data.order import batch_indices, permutation


def test_every_epoch_is_a_permutation_of_its_own():
    epochs = [permutation(101, seed=3, epoch=epoch) for epoch in range(3)]
    for order in epochs:
        assert sorted(order) == list(range(101))
    assert not np.array_equal(epochs[0], epochs[1])
    assert not np.array_equal(epochs[0], permutation(101, seed=4, epoch=0))


@pytest.mark.parametrize("batch_size", [1, 4, 10, 25])
def test_steps_walk_through_the_epochs_without_gap_or_overlap(batch_size):
    steps = [batch_indices(10, batch_size, seed=1, step=step) for step in range(30 // batch_size + 1)]
    expected = np.concatenate([permutation(10, 1, epoch) for epoch in range(10)])
    np.testing.assert_array_equal(np.concatenate(steps), expected[: len(steps) * batch_size])


def test_the_batch_size_does_not_change_the_order_of_samples():
    small = np.concatenate([batch_indices(10, 3, seed=0, step=step) for step in range(8)])
    np.testing.assert_array_equal(small, batch_indices(10, 24, seed=0, step=0))


def test_a_step_does_not_depend_on_the_steps_before():
    permutation.cache_clear()
    late = batch_indices(50, 8, seed=0, step=40)
    for step in (3, 40, 0):
        again = batch_indices(50, 8, seed=0, step=step)
    assert not np.array_equal(again, late)
    np.testing.assert_array_equal(batch_indices(50, 8, seed=0, step=40), late)


def test_the_order_is_the_recorded_one():
    """Records made by older versions of this project and of numpy must stay comparable."""
    assert permutation(12, seed=5, epoch=2).tolist() == [11, 3, 5, 9, 2, 7, 10, 1, 8, 0, 6, 4]
