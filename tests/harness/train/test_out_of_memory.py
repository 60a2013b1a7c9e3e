"""A GPU whose memory is too small for the micro-batch: it is halved once, and that is said."""

import logging

import pytest
import torch

from harness.config.key import resolved, run_key
from harness.config.settings import resolve_config
from harness.data.images import ImageTask
from harness.data.text import TextTask
from harness.errors import RunFailedError
from harness.store import Store
from harness.train import run
from tests.helpers import in_ranks

KEY = run_key(resolve_config(in_ranks.LM))
LM = {"task": "pydocs", "model": "llama-nano", "optimizer.name": "adamw", "optimizer.lr": 1e-3, "steps": 6}


@pytest.fixture
def memory(monkeypatch):
    """The memory holds so many samples; the sizes of the backward passes are noted."""
    seen = []

    def hold(most):
        for kind in (TextTask, ImageTask):
            monkeypatch.setattr(kind, "loss", limited(kind.loss, most))
        return seen

    def limited(proper, most):
        def loss(task, model, batch):
            if len(batch.inputs) > most:
                raise torch.OutOfMemoryError("a made-up lack of memory")
            seen.append(len(batch.inputs))
            return proper(task, model, batch)

        return loss

    return hold


def test_the_micro_batch_is_halved_once_and_the_record_says_so(tmp_path, tiny, memory, caplog):
    config = resolve_config(tiny | LM | {"batch_size": 14, "log_every": 1})
    usual = run.run(resolved(config), Store(tmp_path / "usual"))
    seen = memory(7)
    with caplog.at_level(logging.WARNING, "htbench"):
        record = run.run(resolved(config), Store(tmp_path / "small"))
    assert "going on with micro_batch=7" in caplog.text and caplog.text.count("micro_batch") == 1
    assert max(seen) == 7 and "micro_batch" not in usual.environment
    assert record.environment["micro_batch"] == 7 and record.key == usual.key
    assert record.metrics == pytest.approx(usual.metrics, rel=1e-5)


def test_half_may_still_be_too_much(tmp_path, tiny, memory):
    memory(3)
    with pytest.raises(RunFailedError, match=r"\(oom\).*made-up"):
        run.run(resolved(resolve_config(tiny | LM | {"batch_size": 16})), Store(tmp_path))


def test_batch_statistics_are_those_of_the_config(tmp_path, tiny, memory):
    """With BatchNorm a smaller micro-batch would be another run under the same key."""
    memory(8)
    with pytest.raises(RunFailedError, match=r"\(oom\)"):
        run.run(resolved(resolve_config(tiny | {"batch_size": 16})), Store(tmp_path))


def test_all_processes_halve_it_together(tmp_path):
    for name, trouble in (("usual", ""), ("small", "little memory for the last")):
        ranks = in_ranks.start(2, in_ranks.LM, tmp_path / name, trouble, 4)
        assert in_ranks.end(ranks) == 0
    records = [Store(tmp_path / name).record(KEY) for name in ("usual", "small")]
    assert records[1].environment["micro_batch"] == 4 and "micro_batch" not in records[0].environment
    assert records[1].metrics == pytest.approx(records[0].metrics, rel=1e-5)


def test_a_later_lack_in_one_process_ends_all(tmp_path):
    """The others do not know of it: trying again alone would send sums that nobody expects."""
    ranks = in_ranks.start(2, in_ranks.LM, tmp_path, "no more memory for the last", 5)
    assert in_ranks.end(ranks) != 0
    state = Store(tmp_path).state(KEY)
    assert state.reason == "oom" and "made-up" in state.message
