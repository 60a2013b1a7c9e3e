"""muP and CompleteP: changes of activations do not depend on the size; the rules are those of the authors."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from htbench import optimizers
from htbench.models.llama import Llama
from htbench.optimizers.transfer import Transfer, steps_of
from tests.helpers.rows import of_rows

VOCABULARY, LENGTH, BASE_WIDTH, BASE_DEPTH = 64, 16, 32, 2
RATES = {"adamw": 2e-3, "lion": 1e-3, "sgdm": 0.1, "muon": 0.02, "normuon": 0.02}


def llama(width, depth, heads=None):
    torch.manual_seed(0)
    heads = heads or width // 16
    shape = {"hidden": width, "intermediate": 2 * width, "heads": heads, "layers": depth}
    return Llama(vocabulary=VOCABULARY, max_length=LENGTH, **shape).double()


def transfer_of(model, base_head=16):
    sizes = model.hidden / BASE_WIDTH, len(model.layers) / BASE_DEPTH, model.head_size / base_head
    return Transfer(model.roles(), *sizes)


def tokens(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randint(VOCABULARY // 4, (4, LENGTH), generator=generator)


def seen(model):
    """The embedded tokens, what the last block leaves, and the logits, of the same tokens at any time."""
    streams = []
    hook = model.norm.register_forward_pre_hook(lambda module, given: streams.append(given[0]))
    with torch.no_grad():
        x, logits = model.embed_tokens(tokens(99)), model(tokens(99))
    hook.remove()
    return {"embedded": x, "stream": streams[0], "logits": logits}


def loss_of(logits, step):
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens(step)[:, 1:].flatten())


def changes(name, width, depth, mup, steps=4, **settings):
    """RMS of how much the steps change what is seen."""
    model = llama(width, depth)
    transfer = transfer_of(model) if mup else None
    if transfer:
        transfer.initialise()
    settings = {"lr": RATES[name], "weight_decay": 0.0, "aux_lr": 2e-3, "transfer": transfer, **settings}
    settings = {key: x for key, x in settings.items() if key != "aux_lr" or optimizers.spec(name).has_aux}
    optimizer = optimizers.build(name, model, **settings)
    before = seen(model)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model(tokens(step)), step).backward()
        optimizer.step()
    after = seen(model)
    return {what: (after[what] - before[what]).square().mean().sqrt().item() for what in before}


SIZES = {  # (width, depth)
    "width": [(32, 2), (64, 2), (128, 2), (256, 2)],
    "depth": [(32, 2), (32, 4), (32, 8), (32, 16)],
}
every_size = pytest.mark.parametrize("axis", SIZES)


def slopes(name, axis, **settings):
    """Exponents of the changes over the sizes."""
    made = [changes(name, *size, **settings) for size in SIZES[axis]]
    logs = {what: [math.log(one[what]) for one in made] for what in made[0]}
    return {what: np.polyfit(np.log(np.prod(SIZES[axis], 1)), x, 1)[0] for what, x in logs.items()}


@every_size
@of_rows(RATES, quick=("adamw", "muon"))
def test_changes_do_not_depend_on_the_size(name, axis):
    found = slopes(name, axis, mup=True)
    assert all(abs(slope) < 0.2 for slope in found.values()), found


@pytest.mark.parametrize(
    ("name", "axis", "what", "least", "settings"),
    [
        ("adamw", "width", "logits", 0.7, {}),
        ("muon", "width", "stream", 0.5, {}),
        ("muon", "width", "stream", 0.7, {"scale_rule": "rms0.2"}),
        ("adamw", "depth", "stream", 0.5, {}),
        ("muon", "depth", "stream", 0.5, {}),
    ],
)
def test_without_it_they_grow_with_the_size(name, axis, what, least, settings):
    found = slopes(name, axis, mup=False, **settings)
    assert found[what] > least, found


@of_rows(["rms0.2", "spectral"], quick=["rms0.2"])
def test_muon_may_scale_by_any_rule(name):
    found = slopes("muon", "width", mup=True, scale_rule=name)
    assert all(abs(slope) < 0.2 for slope in found.values()), found


def test_adamw_steps_as_the_authors_rules_say():
    """The multipliers of CompleteP in the forward pass, with torch's AdamW and rates by kind of parameter."""
    base_head, lr, decay = 4, 1e-3, 0.1
    ours, theirs = llama(64, 8, heads=4), llama(64, 8, heads=4)
    transfer = transfer_of(ours, base_head)
    transfer.initialise()
    m, depth, head = transfer.width, transfer.depth, transfer.head
    assert (m, depth, head) == (2, 4, 4)

    def times(module, factor):
        module.register_forward_hook(lambda module, given, out: out * factor)

    times(theirs.lm_head, 1 / m)
    hidden = []
    for block in theirs.layers:
        times(block.self_attn.o_proj, 1 / depth)
        times(block.mlp.down_proj, 1 / depth)
        times(block.self_attn.q_proj, 1 / math.sqrt(head))  # sqrt(base) / head in place of 1 / sqrt(head)
        hidden += [p for p in block.parameters() if p.ndim == 2]
    with torch.no_grad():
        for p in hidden:
            p /= math.sqrt(m)
    others = [p for p in theirs.parameters() if not any(p is one for one in hidden)]
    wide = {"params": hidden, "lr": lr / m, "weight_decay": decay * m}
    plain = torch.optim.AdamW([{"params": others}, wide], lr=lr, weight_decay=decay, betas=(0.9, 0.99), eps=0)
    rule = optimizers.build(
        "adamw", ours, lr=lr, weight_decay=decay, betas=(0.9, 0.99), eps=1e-300, transfer=transfer
    )
    for step in range(10):
        for model, optimizer in ((ours, rule), (theirs, plain)):
            optimizer.zero_grad()
            loss_of(model(tokens(step)), step).backward()
            optimizer.step()
    torch.testing.assert_close(ours(tokens(99)), theirs(tokens(99)), rtol=1e-9, atol=1e-12)


def test_eps_follows_the_gradients():
    """What Adam divides by shrinks with the size; eps stays as small beside it as at the base."""

    def ratios(width, depth):
        model = llama(width, depth)
        transfer = transfer_of(model)
        transfer.initialise()
        optimizer = optimizers.build("adamw", model, lr=1e-3, transfer=transfer)
        loss_of(model(tokens(0)), 0).backward()
        eps = {p: group["eps"] for group in optimizer.param_groups for p in group["params"]}
        found = {}
        for p, role in model.roles().items():
            found.setdefault(role, []).append(p.grad.square().mean().sqrt().item() / eps[p])
        return {role: np.mean(values) for role, values in found.items()}

    small, large = ratios(32, 2), ratios(256, 8)
    assert small.keys() == large.keys() and len(small) == 7
    for role, ratio in small.items():
        assert 0.4 < large[role] / ratio < 2.5, role


@of_rows(RATES, quick=("adamw", "muon"))
def test_at_the_base_nothing_changes(name):
    assert changes(name, 32, 2, mup=True) == changes(name, 32, 2, mup=False)


def test_every_step_takes_the_same_part_off():
    model = llama(128, 4)
    optimizer = optimizers.build(
        "muon", model, lr=0.02, weight_decay=0.1, aux_lr=0.02, transfer=transfer_of(model)
    )
    assert len(optimizer.param_groups) > 3
    for group in optimizer.param_groups:
        assert group["lr"] * group["weight_decay"] == pytest.approx(0.002)


def test_what_nobody_has_worked_out_is_refused():
    assert [steps_of(name, {}) for name in ("htmuon", "adam", "sgdm")] == ["muon", "adam", "sgd"]
    for name in ("soap", "adamuon", "polargrad", "torch.optim:RAdam"):
        with pytest.raises(ValueError, match=f"has no rule for '{name}'"):
            optimizers.build(name, llama(32, 2), transfer=transfer_of(llama(32, 2)))
    with pytest.raises(ValueError, match="with a scale_rule that depends on shapes only"):
        optimizers.build("muon", llama(32, 2), scale_rule="nuclear", transfer=transfer_of(llama(32, 2)))


def test_a_named_group_has_the_factors_of_its_own_rule():
    model = llama(64, 2)
    groups = {"head": {"optimizer": "adamw", "lr": 0.004}}
    optimizer = optimizers.build("muon", model, lr=0.02, groups=groups, transfer=transfer_of(model))
    rates = {p: group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert rates[model.lm_head.weight] == pytest.approx(0.002)
    assert rates[model.layers[0].mlp.gate_proj.weight] == pytest.approx(0.02)
