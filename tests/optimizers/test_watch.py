"""Whoever watches a step sees what each update is made of, and the step has the same bits."""

import pytest
import torch
from torch import nn

from htbench.optimizers import Hybrid, UpdateRule, build
from htbench.optimizers.watch import watching

SHAPES = {"a": (24, 16), "b": (24, 16), "kernel": (8, 4, 3, 3), "vector": (7,), "still": (5, 5)}
RULES = ["muon", "htmuon", "normuon", "soap", "galore", "cosmos", "sophia"]
SILENT = ["adamw", "mars"]  # a kernel makes their whole step


def walk(name, see=None, stacked=None, **hyper):
    """Three steps; returns the weights. `still` never has a gradient."""
    generator = torch.Generator().manual_seed(0)
    params = {key: nn.Parameter(torch.randn(shape, generator=generator)) for key, shape in SHAPES.items()}
    optimizer = build(name, list(params.items()), routing="matrix", **hyper)
    for part in optimizer.parts if isinstance(optimizer, Hybrid) else [optimizer]:
        if isinstance(part, UpdateRule):
            part.stacked = stacked
    for _ in range(3):
        for key, param in params.items():
            param.grad = None if key == "still" else torch.randn(param.shape, generator=generator)
        if see is None:
            optimizer.step()
        else:
            with watching(see(params)):
                optimizer.step()
    return params


class Seen:
    """Notes what is shown of each parameter, by its name."""

    def __init__(self):
        self.updates = {}

    def __call__(self, params):
        names = {param: name for name, param in params.items()}
        self.names = names
        return lambda param, update: self.updates.setdefault(names[param], []).append(update)


@pytest.mark.filterwarnings("ignore:Sophia made")
@pytest.mark.parametrize("stacked", [None, True])
@pytest.mark.parametrize("name", RULES + SILENT)
def test_watching_changes_no_bit(name, stacked):
    seen = Seen()
    plain, watched = walk(name, stacked=stacked), walk(name, seen, stacked=stacked)
    assert all(torch.equal(plain[key], watched[key]) for key in plain)
    if name in RULES:
        # SOAP leaves the weights alone in its first step.
        assert {len(seen.updates[key]) for key in ("a", "b", "kernel")} == {2 if name == "soap" else 3}
        assert "still" not in seen.updates
    else:
        assert not seen.updates.keys() & {"a", "b", "kernel"}


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize(("name", "p"), [("muon_svd", 0.0), ("htmuon", 0.125), ("htmuon_normuon", 0.125)])
def test_the_map_is_seen_before_all_factors(name, p, stacked):
    """Of NorMuon, too, whose rows are divided afterwards; a kernel is its matrix."""
    seen = Seen()
    walk(name, seen, stacked=stacked, **({} if name == "muon_svd" else {"spectral": "svd_power", "p": p}))
    for key in ("a", "b", "kernel"):
        for update in seen.updates[key]:
            inner, outer = (torch.linalg.svdvals(x.double()) for x in (update.momentum, update.result))
            torch.testing.assert_close(outer, inner**p, rtol=1e-4, atol=1e-4)


def test_of_other_rules_it_is_what_lr_multiplies():
    generator = torch.Generator().manual_seed(0)
    W = nn.Parameter(torch.randn(6, 4, generator=generator))
    optimizer = build("cosmos", [("w", W)], routing="matrix", lr=0.1, weight_decay=0.5)
    before, shown = W.detach().clone(), []
    W.grad = torch.randn(W.shape, generator=generator)
    with watching(lambda _, update: shown.append(update)):
        optimizer.step()
    torch.testing.assert_close(W.detach(), before * (1 - 0.1 * 0.5) - 0.1 * shown[0].result)
    assert shown[0].momentum is None and shown[0].blocks == 1


def test_the_parts_of_a_fused_projection_are_told():
    from htbench.models import build as model_of

    torch.manual_seed(0)
    model = model_of("gpt2-nano")
    optimizer = build("muon", model, fused="split")
    for param in model.parameters():
        param.grad = torch.randn_like(param)
    blocks = set()
    with watching(lambda _, update: blocks.add((update.blocks, tuple(update.result.shape)))):
        optimizer.step()
    assert (3, (144, 48)) in blocks and (1, (48, 48)) in blocks


def test_nobody_watches_after_an_error():
    with pytest.raises(KeyError), watching(lambda *_: None):
        raise KeyError
    seen = Seen()
    walk("muon")
    assert seen.updates == {}
