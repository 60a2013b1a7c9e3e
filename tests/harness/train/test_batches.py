"""Batches that are gathered ahead are those of their steps."""

import threading

import pytest
import torch

from htbench.harness import tasks
from htbench.harness.parallel.group import ALONE
from htbench.harness.train.learner import Batches


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return tasks.build("digits", cache=tmp_path_factory.mktemp("cache"), batch_size=8, data_seed=3)


@pytest.mark.parametrize("steps", [(0, 1, 2, 3), (5, 6, 2, 3, 3)])
def test_the_same_batches_in_any_order(task, steps):
    plain, ahead = (Batches(task, ALONE, ahead=flag) for flag in (False, True))
    for step in steps:
        assert torch.equal(plain.at(step).inputs, ahead.at(step).inputs)
        assert torch.equal(plain.at(step).targets, ahead.at(step).targets)
    ahead._thread.shutdown()  # before the next test replaces `batch`


def test_a_thread_of_its_own_gathers_the_next_one(task, monkeypatch):
    asked = []
    proper = task.batch

    def batch(step, group):
        asked.append((step, threading.current_thread() is threading.main_thread()))
        return proper(step, group)

    monkeypatch.setattr(task, "batch", batch)
    batches = Batches(task, ALONE, ahead=True)
    batches.at(0), batches.at(1), batches.at(2)
    batches._thread.shutdown()
    assert asked == [(0, False), (1, False), (2, False), (3, False)]


def test_what_fails_ahead_fails_when_it_is_wanted(task, monkeypatch):
    """After the last step there may be no more data."""

    def batch(step, group):
        if step == 1:
            raise ValueError("no more")
        return proper(step, group)

    proper = task.batch
    monkeypatch.setattr(task, "batch", batch)
    batches = Batches(task, ALONE, ahead=True)
    batches.at(0)
    with pytest.raises(ValueError, match="no more"):
        batches.at(1)
