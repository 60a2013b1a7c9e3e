"""Batches, losses and held-out figures, on data small enough to be recomputed by hand."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from htbench.harness.data import text
from htbench.harness.data.images import ImageTask
from htbench.harness.data.task import IGNORED, Batch, mean_losses
from htbench.harness.data.text import TextTask
from htbench.harness.parallel.group import Group

CPU = torch.device("cpu")


def text_task(**changes):
    generator = np.random.default_rng(0)
    streams = {
        split: generator.integers(0, 7, size, dtype=np.uint16)
        for split, size in {"train": 103, "val": 61, "test": 30}.items()
    }
    token_bytes = np.array([0, 1, 1, 2, 3, 1, 5], dtype=np.uint8)
    settings = {"batch_size": 4, "seq_len": 5, "data_seed": 0, "held_out_tokens": 1000} | changes
    return TextTask(streams, token_bytes, **settings)


def image_task(batch_size=4):
    generator = torch.Generator().manual_seed(0)
    sizes = {"train": 20, "val": 11, "test": 6}
    images = {split: torch.randn(size, 2, 3, 3, generator=generator) for split, size in sizes.items()}
    labels = {split: torch.randint(5, (size,), generator=generator) for split, size in sizes.items()}
    return ImageTask(images, labels, classes=5, batch_size=batch_size, data_seed=0)


class Bigram(nn.Module):
    """Logits that depend on the current token only; the dropout would show in training mode."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 7)
        self.dropout = nn.Dropout(0.5)

    def forward(self, tokens):
        return self.dropout(self.table(tokens))


def linear_classifier():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(18, 5))


@pytest.fixture
def bigram():
    torch.manual_seed(0)
    return Bigram()


def test_a_batch_counts_what_is_not_ignored_and_splits_into_parts_that_add_up():
    targets = torch.arange(15).view(5, 3)
    targets[1, 2] = targets[4] = IGNORED
    batch = Batch.of(torch.zeros(5, 3), targets)
    parts = batch.split(2)
    assert batch.count == 11
    assert [len(part.inputs) for part in parts] == [2, 2, 1]
    assert [part.count for part in parts] == [5, 6, 0]
    assert torch.equal(torch.cat([part.targets for part in parts]), targets)


def test_text_windows_predict_each_token_s_successor():
    task = text_task()
    assert task.epoch_size == 20  # 102 successors in windows of 5
    assert task.model_options == {"vocabulary": 7, "max_length": 5}
    seen = [task.batch(step) for step in range(5)]
    rows = sorted(map(tuple, torch.cat([batch.inputs for batch in seen]).tolist()))
    stream = task.rows["train"].tokens.tolist()
    assert rows == sorted(tuple(stream[5 * w : 5 * w + 5]) for w in range(20))
    for batch in seen:
        assert batch.count == 20
        for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
            w = next(w for w in range(20) if stream[5 * w : 5 * w + 5] == inputs)
            assert stream[5 * w + 1 : 5 * w + 6] == targets


def test_the_loss_is_a_sum_over_counted_targets(bigram):
    task, model = text_task(), bigram.eval()
    batch = task.batch(0)
    log_probabilities = model(batch.inputs).log_softmax(dim=-1)
    expected = -log_probabilities.gather(2, batch.targets[:, :, None]).squeeze(2)
    torch.testing.assert_close(task.loss(model, batch), expected.sum())
    targets = batch.targets.clone()
    targets[0] = IGNORED
    torch.testing.assert_close(task.loss(model, Batch.of(batch.inputs, targets)), expected[1:].sum())
    parts = sum(task.loss(model, part) for part in batch.split(3))
    torch.testing.assert_close(parts, task.loss(model, batch))


@pytest.mark.parametrize("make", [text_task, image_task])
def test_losses_of_low_precision_models_are_summed_in_float32(make, bigram):
    task = make()
    model = (bigram if make is text_task else linear_classifier()).bfloat16().eval()
    batch = task.batch(0)
    inputs = batch.inputs if make is text_task else batch.inputs.bfloat16()
    assert task.loss(model, Batch.of(inputs, batch.targets)).dtype == torch.float32


def test_text_evaluation_equals_a_plain_computation(bigram):
    figures = text_task().evaluate(bigram, "val", micro_batch=3, device=CPU)
    stream = torch.from_numpy(text_task().rows["val"].tokens.astype(np.int64))
    log_probabilities = bigram.table.weight.detach().log_softmax(dim=-1)
    nats = -log_probabilities[stream[:60], stream[1:61]].double()  # 12 windows of 5
    assert figures["loss"] == pytest.approx(nats.mean().item())
    assert figures["perplexity"] == pytest.approx(math.exp(nats.mean()))
    text_bytes = text_task().token_bytes[stream[1:61]].sum()
    assert figures["bits_per_byte"] == pytest.approx((nats.sum() / math.log(2) / text_bytes).item())
    assert figures["samples"] == 60
    batch_means = nats.view(3, 20).mean(dim=1)
    assert figures["loss_biased"] == pytest.approx((batch_means.sum() / 4).item())


def test_images_are_scored_one_by_one_as_by_a_plain_computation():
    task, model = image_task(), linear_classifier()
    scores = task.score(model, "val", micro_batch=3, device=CPU)
    with torch.no_grad():
        logits = model.eval()(task.images["val"])
    labels = task.labels["val"]
    nats = nn.functional.cross_entropy(logits, labels, reduction="none")
    means = [part.mean().item() for part in nats.split(4)]
    assert scores.metrics == {
        "loss": pytest.approx(nats.mean().item()),
        "loss_biased": pytest.approx(sum(means) / 4),
        "accuracy": (logits.argmax(dim=1) == labels).double().mean().item(),
        "samples": len(labels),
    }
    assert scores.metrics == task.evaluate(model, "val", micro_batch=3, device=CPU)
    assert scores.sums == pytest.approx(nats.numpy(), rel=1e-6)
    assert scores.correct.tolist() == (logits.argmax(dim=1) == labels).tolist()
    assert scores.clusters.tolist() == scores.places.tolist() == list(range(11)) and scores.whole == 11


def test_the_micro_batch_only_bounds_memory(bigram):
    for task, model in ((text_task(), bigram), (image_task(), linear_classifier())):
        one, all_at_once = (task.evaluate(model, "val", micro_batch=m, device=CPU) for m in (1, 100))
        assert one == pytest.approx(all_at_once)


def test_evaluation_restores_the_mode_and_leaves_no_gradients(bigram):
    task = text_task()
    for training in (True, False):
        bigram.train(training)
        task.evaluate(bigram, "val", micro_batch=8, device=CPU)
        assert bigram.training is training
        assert bigram.dropout.training is training
    assert all(parameter.grad is None for parameter in bigram.parameters())


def test_held_out_windows_are_capped_and_spread(bigram):
    task = text_task(held_out_tokens=24)
    assert task.rows["val"].spread(24).tolist() == [0, 3, 6, 9]  # 4 of 12 windows
    assert task.evaluate(bigram, "val", micro_batch=8, device=CPU)["samples"] == 4 * 5


def test_all_of_the_test_split_is_scored_row_by_row(bigram):
    task = text_task(held_out_tokens=5)
    scores = task.score(bigram, "test", micro_batch=2, device=CPU)
    stream = torch.from_numpy(task.rows["test"].tokens.astype(np.int64))
    nats = -bigram.table.weight.detach().log_softmax(dim=-1)[stream[:25], stream[1:26]]  # 5 windows of 5
    assert scores.sums == pytest.approx(nats.view(5, 5).sum(dim=1).numpy(), rel=1e-6)
    assert scores.counts.tolist() == [5] * 5 and scores.places.tolist() == [0, 1, 2, 3, 4]
    assert scores.whole == 5 and scores.correct is None
    assert scores.metrics["loss"] == pytest.approx(nats.mean().item())
    assert scores.metrics == task.evaluate(bigram, "test", micro_batch=7, device=CPU)


@pytest.mark.parametrize("rounding", [0, 1e-6])  # of logits, as a product of more rows may round
def test_batches_are_evaluated_together_where_each_keeps_its_bits(bigram, monkeypatch, rounding):
    sizes, task = set(), text_task()
    bigram.register_forward_hook(lambda _, x, y: sizes.add(len(x[0])) or y * (1 + rounding * len(x[0])))
    with monkeypatch.context() as patched:
        patched.setattr(text, "_TOGETHER", 0)
        expected = task.score(bigram, "val", 4, CPU).sums
    assert sizes == {4} and len(expected) == 12
    for rows in ({4, 12}, {4} if rounding else {12}):
        sizes.clear()
        assert (task.score(bigram, "val", 4, CPU).sums == expected).all() and sizes == rows


def test_a_window_belongs_to_the_document_in_which_it_begins():
    task = text_task()
    task.rows["test"].tokens[:] = [3, 3, 0, 3, 3, 3, 3, 3, 3, 3, 0, 0, 3, 3, 3, *[3] * 14, 0]
    ends = (task.token_bytes == 0).numpy()
    assert task.rows["test"].documents(np.arange(5), ends).tolist() == [0, 1, 1, 3, 3]
    assert task.rows["test"].documents(np.array([3, 1]), ends).tolist() == [3, 1]


class _OneOf(Group):
    """One of several processes, which keeps what it would give to the sum."""

    def all_reduce_sum(self, values):
        return list(values)


@pytest.mark.parametrize("make", [text_task, image_task])
def test_the_processes_of_a_run_share_the_items_in_their_order(make, bigram):
    task, model = make(), bigram if make is text_task else linear_classifier()
    whole = task.score(model, "test", micro_batch=3, device=CPU).sums
    parts = [task.score(model, "test", 3, CPU, _OneOf(rank, 3)).sums for rank in range(3)]
    assert (np.count_nonzero(parts, axis=0) == 1).all(), "each item by one of them"
    assert sum(parts) == pytest.approx(whole, rel=1e-6)


def test_means_over_targets_and_over_batches():
    means = mean_losses(np.array([10.0, 3.0]), np.array([5, 1]), batch_size=1)
    assert means == {"loss": 13 / 6, "loss_biased": (2 + 3) / 3}


def test_an_exploded_model_has_an_infinite_perplexity(bigram):
    with torch.no_grad():
        bigram.table.weight *= 1e6
    assert text_task().evaluate(bigram, "val", micro_batch=8, device=CPU)["perplexity"] == math.inf


@pytest.mark.parametrize("make", [text_task, image_task])
def test_batches_are_pure_functions_of_seed_and_step(make):
    first, second = make(), make()
    late = first.batch(9)
    first.batch(0)
    for a, b in ((late, second.batch(9)), (first.batch(4), second.batch(4))):
        assert torch.equal(a.inputs, b.inputs)
        assert torch.equal(a.targets, b.targets)
    assert not torch.equal(first.batch(3).inputs, first.batch(4).inputs)


def test_image_batches_pair_images_with_their_labels():
    task = image_task(batch_size=20)
    batch = task.batch(0)
    assert task.model_options == {"classes": 5, "in_channels": 2, "image_size": 3}
    for image, label in zip(batch.inputs, batch.targets, strict=True):
        row = (task.images["train"] == image).flatten(1).all(dim=1).nonzero().item()
        assert task.labels["train"][row] == label


@pytest.mark.parametrize("make", [text_task, image_task])
def test_every_process_gathers_its_share_and_knows_the_count_of_all(make):
    task, whole = make(), make().batch(3)
    shares = [task.batch(3, Group(rank, 2)) for rank in range(2)]
    assert [len(share.inputs) for share in shares] == [2, 2] and {s.count for s in shares} == {whole.count}
    for name in ("inputs", "targets"):
        parts = [getattr(share, name) for share in shares]
        assert torch.equal(torch.cat(parts), getattr(whole, name))
        assert all(
            part.untyped_storage().size() < getattr(whole, name).untyped_storage().size() for part in parts
        )
