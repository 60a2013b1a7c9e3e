"""Synchronised BatchNorm: outputs, gradients and running statistics of one process on the whole batch."""

import copy

import pytest
import torch
from torch import nn

from htbench.harness.parallel.batch_norm import SyncBatchNorm, synchronise
from htbench.harness.parallel.group import ALONE, Group
from tests.helpers.in_group import in_group

F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16
# The norm, the shape of the whole batch, its precision, and how far from zero it lies.
CASES = {
    "vectors": (nn.BatchNorm1d(3), (12, 3), F64, 0.0),
    "sequences": (nn.BatchNorm1d(3, momentum=None), (12, 3, 5), F64, 0.0),
    "images": (nn.BatchNorm2d(3, eps=1e-3, momentum=0.3), (12, 3, 4, 4), F32, 0.0),
    "far from zero": (nn.BatchNorm2d(3), (12, 3, 4, 4), F32, 300.0),
    "no weight": (nn.BatchNorm2d(3, affine=False), (12, 3, 4, 4), F32, 0.0),
    "no running statistics": (nn.BatchNorm2d(3, track_running_stats=False), (12, 3, 4, 4), F32, 0.0),
    "bfloat16": (nn.BatchNorm2d(3), (12, 3, 4, 4), BF16, 0.0),
}
# bfloat16 has 8 bits; far from zero one process loses digits of its own.
TOLERANCES = {"bfloat16": 2e-2, "far from zero": 1e-3}


def made(case):
    norm, shape, dtype, offset = CASES[case]
    torch.manual_seed(0)
    net = nn.Sequential(copy.deepcopy(norm)).to(dtype)
    with torch.no_grad():
        for p in net.parameters():
            p.normal_(1)
    # Each process's part lies elsewhere, so that statistics of its own would be wrong.
    x = (torch.randn(shape) + torch.arange(12.0).view(-1, *[1] * (len(shape) - 1)) + offset).to(dtype)
    return net, x.requires_grad_(), torch.randn(shape).to(dtype)


def passes(net, x, wanted):
    """Output and gradients of a second training step, the buffers, and the output of an evaluation."""
    for _ in range(2):
        net.zero_grad()
        x.grad = None
        y = net(x)
        (y * wanted).sum().backward()
    buffers = {name: buffer.clone() for name, buffer in net.named_buffers()}
    gradients = {name: p.grad for name, p in net.named_parameters()}
    return {"y": y.detach(), "x": x.grad, **gradients, **buffers, "evaluated": net.eval()(x).detach()}


def shared(group):
    found = {}
    for case in CASES:
        net, x, wanted = made(case)
        synchronise(net, group)
        assert isinstance(net[0], SyncBatchNorm)
        x = group.shard(x).detach().requires_grad_()
        found[case] = passes(net, x, group.shard(wanted))
    return found


@pytest.fixture(scope="module")
def ranks():
    return in_group(3, shared)


@pytest.mark.parametrize("case", CASES)
def test_it_is_one_process_on_the_whole_batch(ranks, case):
    whole = passes(*made(case))
    parts = [rank[case] for rank in ranks]
    assert all(part.keys() == whole.keys() for part in parts)
    for name, value in whole.items():
        if name == "evaluated" and case == "no running statistics":
            continue  # it then takes those of what it sees
        if name in ("y", "x", "evaluated"):
            found = torch.cat([part[name] for part in parts])
        elif name in ("0.weight", "0.bias"):
            found = torch.stack([part[name] for part in parts]).sum(0)
        else:
            assert all(torch.equal(part[name], parts[0][name]) for part in parts)
            found = parts[0][name]
        assert found.dtype == value.dtype
        tolerance = TOLERANCES.get(case, 1e-5)
        scale = value.double().abs().max().item()
        torch.testing.assert_close(found, value, rtol=tolerance, atol=tolerance * scale)


def test_names_parameters_and_modes_stay():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Sequential(nn.BatchNorm2d(2)), nn.BatchNorm2d(2)).eval()
    before, names = list(net.parameters()), list(net.state_dict())
    synchronise(net, ALONE)
    assert type(net[2]) is nn.BatchNorm2d
    synchronise(net, Group(0, 2))
    assert [type(net[1][0]), type(net[2])] == [SyncBatchNorm] * 2 and not net[2].training
    assert list(net.state_dict()) == names
    assert all(p is q for p, q in zip(net.parameters(), before, strict=True))
