"""Gradients summed behind the backward pass, as GPUs do; here it is asked for on the CPU."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from htbench.harness.parallel import group as distributed
from htbench.harness.parallel.overlap import GradientSum
from tests.helpers.in_group import in_group


class Net(nn.Module):
    """One weight is used twice, one never, one by a single sample only; one is frozen."""

    def __init__(self):
        super().__init__()
        self.rare = nn.Parameter(torch.ones(7))
        self.unused, self.frozen = nn.Linear(3, 2), nn.Linear(5, 5)
        self.first, self.tied, self.last = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 1)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        first = self.first(x)
        loss = self.last(self.tied(self.tied(first).tanh()) + self.frozen(first)).sum()
        chosen = x[x[:, 0] > 1]
        return loss + chosen.sum() * self.rare.sum() if len(chosen) else loss


def made():
    torch.manual_seed(0)
    samples = torch.randn(12, 6)
    samples[:, 0] = torch.linspace(-2, 1.1, 12)
    return Net(), samples


# --- in the processes ---


def against_plain(group, parts, micro_batch):
    """The gradients of each way, how many buckets were sent before the end, and what is asked for twice."""
    model, samples = made()
    ours = samples.split(parts)[group.rank]
    sums = GradientSum(model, group, overlap=True)

    def backward(expect):
        micros = [one for one in ours.split(micro_batch) if len(one)]
        for number, micro in enumerate(micros, 1):
            if expect and number == len(micros):
                sums.expect()
            model(micro).backward()

    def gradients():
        found = {name: p.grad for name, p in model.named_parameters()}
        model.zero_grad()
        return found

    backward(expect=False)
    group.sum_gradients(model)
    plain = gradients()
    once, again, early = [], [], []
    for found in (once, again):
        backward(expect=True)
        early.append(sums._sent)
        sums.finish()
        found.append(gradients())
    backward(expect=False)  # as Sophia's pass
    early.append(sums._sent)
    group.sum_gradients(model)
    return plain, once[0], again[0], gradients(), early, len(sums.buckets)


def several(group, cases):
    distributed.BUCKET = 20  # several buckets even here
    return [against_plain(group, *case) for case in cases]


def twice(group):
    """Reentrant checkpoints accumulate the gradient of a weight once for each of its uses."""
    model = nn.Linear(3, 3)
    sums = GradientSum(model, group, overlap=True)
    sums.expect()
    y = torch.randn(2, 3, requires_grad=True)
    for _ in range(2):
        y = checkpoint(model, y, use_reentrant=True)
    with pytest.raises(RuntimeError, match="gave one gradient twice"):
        y.sum().backward()


# --- what they find ---

# How the samples are divided among three processes, and the micro-batch.
CASES = {"even": ([4, 4, 4], 4), "micro": ([4, 4, 4], 1), "uneven": ([7, 4, 1], 2), "empty": ([8, 4, 0], 4)}


@pytest.fixture(scope="module")
def found():
    ranks = in_group(3, several, list(CASES.values()))
    return {case: [rank[number] for rank in ranks] for number, case in enumerate(CASES)}


@pytest.mark.parametrize("case", CASES)
def test_every_way_gives_the_sum_of_one_process_on_all_samples(found, case):
    model, samples = made()
    model(samples).backward()
    whole = {name: p.grad for name, p in model.named_parameters()}
    assert [name for name, gradient in whole.items() if gradient is None] == [
        *("unused.weight", "unused.bias", "frozen.weight", "frozen.bias")
    ]
    for *ways, _, _ in found[case]:
        for gradients, others in zip(ways, found[case][0], strict=False):
            torch.testing.assert_close(gradients, whole, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(gradients, others, rtol=0, atol=0, msg="other bits in other processes")


@pytest.mark.parametrize("case", CASES)
def test_most_is_sent_before_the_backward_pass_has_ended(found, case):
    for rank, (*_, early, count) in enumerate(found[case]):
        nothing = CASES[case][0][rank] == 0
        assert count == 5
        assert early == ([0, 0, 0] if nothing else [4, 4, 0]), "not what is rare or unused"


def test_a_gradient_that_comes_in_two_pieces_is_refused():
    in_group(2, twice)


def test_alone_or_without_overlap_there_are_no_hooks():
    model, _ = made()
    GradientSum(model, distributed.ALONE, overlap=True).finish()
    assert not GradientSum(model, distributed.Group(0, 2), overlap=False).buckets
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())
