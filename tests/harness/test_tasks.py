"""The table of tasks, and each task end to end: fingerprint without torch, load, train on, evaluate."""

import subprocess
import sys

import pytest
import torch

from htbench import models
from htbench.harness import tasks
from tests.helpers import miniature

# Batch size and steps: a hundred classes take more than ten, and so do strongly changed images.
LONGER = {"glyphs": (64, 120), "imagenet-1k": (32, 60)}
IMAGES = ("cifar10", "cifar100", "imagenet-1k")
NANO = {"lm": "llama-nano", "image": "resnet-nano"}


@pytest.fixture(scope="module")
def cache(tmp_path_factory, corpora):
    """A cache in which all published sets are prepared, as miniatures."""
    return miniature.prepared(
        tmp_path_factory.mktemp("cache"), corpora, ("c4", "openwebtext", "fineweb", *IMAGES)
    )


@pytest.fixture(autouse=True)
def _miniatures(published_corpora):
    """The miniatures stand for the published corpora."""


def taken(model, task):
    """Of what the task offers to models, what this one has a setting for."""
    return {name: value for name, value in task.model_options.items() if name in models.spec(model).settings}


@pytest.mark.parametrize("name", tasks.TASKS)
def test_a_nano_model_learns_the_task(name, cache):
    row = tasks.spec(name)
    batch_size, steps = LONGER.get(name, (16, 20))
    # Rows of 1024 tokens, as of openwebtext, would take a minute.
    seq_len = 32 if row.kind == "lm" else None
    task = tasks.build(name, cache=cache, batch_size=batch_size, data_seed=0, seq_len=seq_len)
    torch.manual_seed(0)
    model = models.build(NANO[row.kind], **taken(NANO[row.kind], task))
    device = torch.device("cpu")
    before = task.evaluate(model, "val", micro_batch=64, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=row.adamw_lr)
    for step in range(steps):
        batch = task.batch(step).to(device)
        assert len(batch.inputs) == batch_size
        optimizer.zero_grad()
        (task.loss(model, batch) / batch.count).backward()
        optimizer.step()
    after = task.evaluate(model, "val", micro_batch=64, device=device)
    assert after["loss"] < 0.9 * before["loss"]
    assert (after[row.metric] > before[row.metric]) == row.higher_is_better
    assert task.metric == row.metric
    assert task.evaluate(model, "test", micro_batch=64, device=device).keys() == after.keys()


@pytest.mark.parametrize("name", tasks.TASKS)
def test_the_cache_folder_is_named_after_the_fingerprint(name, cache):
    tasks.build(
        name,
        cache=cache,
        batch_size=2,
        data_seed=0,
        seq_len=8 if name in ("openwebtext", "fineweb") else None,
    )
    assert (cache / f"{name}-{tasks.fingerprint(name)}" / "manifest.json").is_file()


def test_the_sequence_length_is_the_rows_unless_given(cache):
    def length(**options):
        return (
            tasks.build("pydocs", cache=cache, batch_size=2, data_seed=0, **options).batch(0).inputs.shape[1]
        )

    assert length() == tasks.spec("pydocs").seq_len
    assert length(seq_len=11) == 11


def test_fingerprints_cost_neither_torch_nor_a_tokenizer_nor_scikit_learn():
    code = (
        "import sys; from htbench.harness import tasks;"
        "print(*[tasks.fingerprint(name) for name in tasks.TASKS]);"
        "sys.exit(bool({'torch', 'numpy', 'tokenizers', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [tasks.fingerprint(name) for name in tasks.TASKS]


def test_an_unknown_task_names_the_nearest():
    with pytest.raises(ValueError, match="'pydoc'.*pydocs"):
        tasks.spec("pydoc")
