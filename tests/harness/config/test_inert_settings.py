"""Settings that change nothing beside the others do not split a run into two."""

import pytest

from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config

DIGITS = {"task": "digits", "model": "resnet-nano", "steps": 100, "batch_size": 64}
INERT = [
    ({}, {"schedule.decay": 0.3}),
    ({"schedule.name": "constant"}, {"schedule.decay": 0.3, "schedule.floor": 0.5}),
    ({"schedule.name": "linear"}, {"schedule.decay": 0.3, "schedule.exponent": 0.3}),
    ({"schedule.name": "wsd"}, {"schedule.at": [0.5], "schedule.factors": [0]}),
    ({}, {"micro_batch": 64}),
    ({"processes": 2}, {"micro_batch": 32}),
    ({"optimizer.name": "htmuon", "optimizer.spectral": "svd_power"}, {"optimizer.gram_dtype": "float32"}),
    ({"optimizer.name": "htmuon"}, {"optimizer.interval_phase": "first"}),
    ({"optimizer.name": "htmuon"}, {"optimizer.ns_steps": 7}),
    ({"optimizer.name": "htmuon_normuon"}, {"optimizer.mix_set": "k8", "optimizer.rank": 3}),
    ({"optimizer.name": "sophia", "optimizer.sign_momentum": True}, {"optimizer.rho": 0.1}),
]

ACTIVE = [
    ({"schedule.name": "wsd"}, {"schedule.decay": 0.3}),
    ({"schedule.name": "wsd"}, {"schedule.floor": 0.3}),
    ({"schedule.name": "linear"}, {"schedule.floor": 0}),
    ({"schedule.name": "power"}, {"schedule.exponent": 0.3}),
    ({"schedule.name": "power"}, {"schedule.decay": 0.3}),
    ({}, {"micro_batch": 32}),  # batch statistics
    ({"optimizer.name": "htmuon"}, {"optimizer.gram_dtype": "float32"}),
    ({"optimizer.name": "htmuon", "optimizer.interval": 5}, {"optimizer.interval_phase": "first"}),
    ({"optimizer.name": "htmuon", "optimizer.interval": 5}, {"optimizer.ns_steps": 7}),
    ({"optimizer.name": "htmuon_ns"}, {"optimizer.ns_steps": 7}),  # it takes a factor from Newton-Schulz
    ({"optimizer.name": "muon"}, {"optimizer.ns_steps": 7}),
    ({"optimizer.name": "sophia"}, {"optimizer.rho": 0.1}),
]


@pytest.mark.parametrize(("beside", "setting"), INERT, ids=str)
def test_a_value_that_changes_nothing_is_no_run_of_its_own(beside, setting):
    plain, given = resolve_config(DIGITS | beside), resolve_config(DIGITS | beside | setting)
    assert run_key(given) == run_key(plain) and given == plain


@pytest.mark.parametrize(("beside", "setting"), ACTIVE, ids=str)
def test_a_value_that_matters_is_a_run_of_its_own(beside, setting):
    assert run_key(resolve_config(DIGITS | beside | setting)) != run_key(resolve_config(DIGITS | beside))


@pytest.mark.parametrize(
    ("rule", "setting"),
    [
        ({"optimizer.name": "htmuon"}, {"optimizer.ns_steps": 7}),
        ({"optimizer.name": "htmuon_mix"}, {"optimizer.ns_dtype": "float32"}),
        ({"optimizer.name": "sophia", "optimizer.sign_momentum": True}, {"optimizer.rho": 1.0}),
    ],
    ids=str,
)
def test_the_optimizer_itself_agrees_that_it_changes_nothing(rule, setting):
    """The class gets the values as given, before anybody makes them the default."""
    import torch

    from htbench import optimizers

    def weights(extra):
        row = optimizers.spec(rule["optimizer.name"])
        torch.manual_seed(0)
        W = torch.nn.Parameter(torch.randn(6, 4))
        module, name = row.target.split(":")
        cls = getattr(__import__(module, fromlist=[name]), name)
        hyper = {name.removeprefix("optimizer."): v for name, v in (rule | extra).items()} | dict(row.fixed)
        del hyper["name"]
        if row.family == "spectral":
            hyper.setdefault("spectral", "svd_power")
        optimizer = cls([W], lr=0.1, **hyper)
        for _ in range(3):
            W.grad = W.detach() ** 2
            optimizer.step()
        return W

    assert torch.equal(weights({}), weights(setting))
