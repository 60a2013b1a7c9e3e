"""`parametrization: mup` as settings of a run: what it is refused beside, its key, and what it trains."""

import copy

import pytest
import torch

from htbench.harness import tasks
from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.parallel.group import ALONE
from htbench.harness.train.building import build_model, build_optimizer
from htbench.harness.train.learner import Learner

SIZE = {"task": "pydocs", "model": "llama-s3", "steps": 4, "batch_size": 2, "seq_len": 64}
MUP = {"parametrization": "mup", "base_width": 32, "base_depth": 2}


class Tokens:
    """A task of random tokens."""

    model_options = {"vocabulary": 320, "max_length": 64}


def config_of(**settings):
    return resolve_config(SIZE | settings)


def test_the_standard_has_the_key_of_code_before_it():
    plain = config_of()
    assert config_of(parametrization="standard", base_width=32, base_head=8) == plain
    keys = {run_key(plain), run_key(config_of(**MUP))}
    keys |= {run_key(config_of(**MUP | {name: 4})) for name in ("base_width", "base_depth", "base_head")}
    assert len(keys) == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"base_depth": None},
            "parametrization=mup needs base_width and base_depth, those of the tuned model",
        ),
        ({"model": "gpt2-nano"}, "parametrization=mup is for the LLaMA models, and 'gpt2-nano' is none"),
        (
            {"optimizer.name": "soap"},
            "parametrization=mup has no rule for 'soap'; it has rules for adam, adamw",
        ),
        (
            {"schedule.weight_decay.name": "linear", "schedule.weight_decay.to": 0},
            "parametrization=mup sets weight_decay; remove schedule.weight_decay",
        ),
    ],
)
def test_what_can_not_be_carried_over_is_refused(settings, message):
    with pytest.raises((UsageError, ValueError), match=message):
        config_of(**MUP | settings)


def test_the_same_random_numbers_are_scaled_once():
    plain, scaled = (
        build_model(c, Tokens, torch.device("cpu"), ALONE) for c in (config_of(), config_of(**MUP))
    )
    factors = {"embed_tokens": 1, "norm": 1, "q_proj": 0.5**0.5, "down_proj": 0.5**1.5, "lm_head": 0.5}
    theirs = dict(plain.named_parameters())
    for name, p in scaled.named_parameters():
        for part, factor in factors.items():
            if part in name:
                torch.testing.assert_close(p, factor * theirs[name], rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_every_parameter_is_in_one_group_with_its_peak(name):
    config = config_of(**MUP, **{"optimizer.name": name, "optimizer.lr": 0.01})
    model = build_model(config, Tokens, torch.device("cpu"), ALONE)
    optimizer = build_optimizer(config, model)
    grouped = [p for group in optimizer.param_groups for p in group["params"]]
    assert sorted(map(id, grouped)) == sorted(map(id, model.parameters()))
    peaks = {p: group["initial_lr"] for group in optimizer.param_groups for p in group["params"]}
    down, gate = model.layers[0].mlp.down_proj.weight, model.layers[0].mlp.gate_proj.weight
    assert peaks[gate] == pytest.approx(0.01 / (2 if name == "adamw" else 1))
    assert peaks[down] == pytest.approx(peaks[gate] / 2)


def test_it_trains_and_saves_as_any_other(tmp_path):
    config = config_of(**MUP, **{"optimizer.name": "muon"})
    run = resolved(config)
    task = tasks.load_for(run.task, config, tmp_path)
    once, twice = (Learner(run, task, 4, torch.device("cpu"), ALONE) for _ in range(2))
    for step in range(2):
        once.update(step)
    twice.model.load_state_dict(once.model.state_dict())
    twice.optimizer.load_state_dict(copy.deepcopy(once.optimizer.state_dict()))
    for step in (2, 3):
        assert once.update(step) == twice.update(step)
