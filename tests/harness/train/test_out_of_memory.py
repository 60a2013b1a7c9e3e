"""A GPU whose memory is too small for the micro-batch: it is halved until it fits, and that is said."""

import logging
import weakref

import pytest
import torch

from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.data.images import ImageTask
from htbench.harness.data.text import TextTask
from htbench.harness.errors import RunFailedError
from htbench.harness.store import Store
from htbench.harness.train import run
from tests.helpers import in_ranks

KEY = run_key(resolve_config(in_ranks.LM))
LM = {"task": "pydocs", "model": "llama-nano", "optimizer.name": "adamw", "optimizer.lr": 1e-3, "steps": 6}


@pytest.fixture
def memory(monkeypatch):
    """The memory holds so many samples; the sizes of the passes are noted. What a failed one made is gone."""
    seen, made = [], []

    def hold(most):
        for kind in (TextTask, ImageTask):
            for passes in ("loss", "logits"):
                monkeypatch.setattr(kind, passes, limited(getattr(kind, passes), most))
        return seen

    def limited(proper, most):
        def loss(task, model, batch, *more):
            if len(batch.inputs) > most:
                activations = torch.zeros(1)
                made.append(weakref.ref(activations))
                raise torch.OutOfMemoryError("a made-up lack of memory")
            assert not any(each() is not None for each in made), "the failed attempt keeps its activations"
            seen.append(len(batch.inputs))
            return proper(task, model, batch, *more)

        return loss

    return hold


@pytest.mark.parametrize(("name", "most", "told"), [("adamw", 7, [7]), ("sophia", 2, [7, 4, 2])])
def test_the_micro_batch_is_halved_until_it_fits_and_the_record_says_so(
    tmp_path, tiny, memory, caplog, name, most, told
):
    """Of Sophia the second backward pass comes first, and its state must not see one twice."""
    config = resolve_config(tiny | LM | {"optimizer.name": name, "batch_size": 14, "log_every": 1})
    usual = run.run(resolved(config), Store(tmp_path / "usual"))
    seen = memory(most)
    with caplog.at_level(logging.WARNING, "htbench"):
        record = run.run(resolved(config), Store(tmp_path / "small"))
    halvings = [line.args[-1] for line in caplog.records if "micro_batch" in line.message]
    assert halvings == told and max(seen) == most and "micro_batch" not in usual.environment
    assert record.environment["micro_batch"] == most and record.key == usual.key
    assert record.metrics == pytest.approx(usual.metrics, rel=1e-5)


def test_a_sample_alone_may_still_be_too_much(tmp_path, tiny, memory):
    memory(0)
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
