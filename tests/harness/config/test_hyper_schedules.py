"""Schedules of hyperparameters in a config: the key, defaults, and one clear sentence for every mistake."""

import re

import pytest

from htbench.harness.config.key import identity, run_key
from htbench.harness.config.names import flatten
from htbench.harness.config.settings import is_setting, param_of, resolve_config, to_settings, to_yaml
from htbench.harness.config.yaml_text import read_words, read_yaml
from htbench.harness.errors import UsageError

FALLING = {"schedule.p.name": "linear", "schedule.p.from": 0.25, "schedule.p.to": 0}
SIGMOID = FALLING | {"schedule.p.name": "sigmoid", "schedule.p.centre": 0.04, "schedule.p.width": 0.04}


@pytest.fixture
def rule(tiny):
    return tiny | {"optimizer.name": "htmuon", "optimizer.lr": 0.02}


def test_a_run_without_schedules_has_none_in_its_key(rule):
    config = resolve_config(rule)
    assert config.schedule.hyper == {} and "hyper" not in identity(config)["schedule"]


def test_every_part_is_in_the_key(rule):
    between = FALLING | {"schedule.p.start": 0.5, "schedule.p.end": 0.75}
    several = [
        *({}, FALLING, FALLING | {"schedule.p.name": "cosine"}, FALLING | {"schedule.p.from": 0.5}),
        *(FALLING | {"schedule.p.to": 0.125}, FALLING | {"schedule.p.start": 0.5}, between),
        *(SIGMOID, SIGMOID | {"schedule.p.centre": 0.1}, SIGMOID | {"schedule.p.width": 0.1}),
    ]
    assert len({run_key(resolve_config(rule | one)) for one in several}) == len(several)


@pytest.mark.parametrize(
    "same",
    [
        {"schedule.p.start": 0, "schedule.p.end": "1"},
        {"schedule.p.from": None, "optimizer.p": 0.25},
        {"optimizer.p": 0.25},
        {"schedule.p.centre": 0.5},  # of the other shape
    ],
    ids=str,
)
def test_what_means_the_same_is_the_same_run(rule, same):
    assert resolve_config(rule | FALLING | same) == resolve_config(rule | FALLING)


def test_a_schedule_starts_at_the_default_if_nothing_else_is_given(rule):
    config = resolve_config(rule | {"schedule.p.name": "linear", "schedule.p.to": 0.5})
    assert config.schedule.hyper["p"]["from"] == config.optimizer.hyper["p"] == 0.125


def test_yaml_words_and_stored_configs_agree(rule, tmp_path):
    decay = {"schedule.weight_decay.name": "cosine", "schedule.weight_decay.to": 0}
    config = resolve_config(
        rule | SIGMOID | decay | {"optimizer.lr": 1e-5, "optimizer.aux_betas": [0.8, 0.9]}
    )
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(config))
    assert resolve_config(flatten(read_yaml(path))) == config
    assert resolve_config(to_settings(config)) == config
    words = read_words(["schedule.p={name: linear, from: .25}", "schedule.p.to=0"])
    assert resolve_config(rule | words) == resolve_config(rule | FALLING)
    assert config.optimizer.weight_decay == config.schedule.hyper["weight_decay"]["from"] == 0.1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schedule.q.to": 1}, r"'schedule\.q' for htmuon.*known are: .*p"),
        ({"schedule.momentun.to": 1}, r"did you mean 'momentum'"),
        ({"schedule.nesterov.to": 1}, r"nesterov can't have a schedule.*true or false"),
        ({"schedule.interval.to": 5}, r"interval can't have a schedule.*whole number"),
        ({"schedule.gram_dtype.to": 5}, r"gram_dtype can't have a schedule.*one of graded, float32"),
        ({"schedule.aux_eps.to": 1}, r"aux_eps belongs to the auxiliary AdamW"),
        ({"schedule.lr.to": 1}, r"schedule of its own: schedule\.name"),
        ({"schedule.p.too": 1}, r"'schedule\.p\.too'.*did you mean 'to'"),
        ({"schedule.p": 1}, r"schedule\.p must be a schedule, such as"),
        ({"schedule.warm": 1}, r"'schedule\.warm'; did you mean 'schedule\.warmup'"),
        (
            {"schedule.p.name": "linea"},
            r"schedule\.p\.name must be one of linear, cosine, sigmoid, got 'linea'",
        ),
        ({"schedule.p.to": 1.5}, r"schedule\.p\.to must be .*got 1\.5"),
        ({"schedule.p.from": -0.6}, r"schedule\.p\.from must be .*got -0\.6"),
        ({"schedule.p.to": None}, r"schedule\.p\.to has no default and must be given"),
        ({"schedule.p.name": None}, r"schedule\.p\.name has no default and must be given"),
        ({"schedule.p.name": "sigmoid", "schedule.p.width": 1}, r"schedule\.p\.centre has no default"),
        (SIGMOID | {"schedule.p.width": 0}, r"schedule\.p\.width must be .*> 0"),
        ({"schedule.p.start": 0.5, "schedule.p.end": 0.5}, r"schedule\.p\.start=0\.5 must be less than"),
        ({"optimizer.p": 0.5}, r"optimizer\.p=0\.5 and schedule\.p\.from=0\.25 contradict each other"),
    ],
    ids=str,
)
def test_one_sentence_for_every_mistake(rule, change, sentence):
    with pytest.raises(UsageError, match=sentence) as caught:
        resolve_config(rule | FALLING | change)
    assert "\n" not in str(caught.value) and not re.search(r"object at|Ellipsis", str(caught.value))


def test_an_optimizer_without_weight_decay_has_no_schedule_of_it(tiny):
    own = tiny | {"optimizer.name": "torch.optim:Rprop", "schedule.weight_decay.to": 0}
    with pytest.raises(UsageError, match=r"'schedule\.weight_decay'"):
        resolve_config(own | {"schedule.weight_decay.name": "linear"})


def test_a_hyperparameter_that_changes_nothing_has_no_schedule(tiny):
    rule = tiny | {"optimizer.name": "sophia", "optimizer.sign_momentum": True}
    with_one = {"schedule.rho.name": "linear", "schedule.rho.to": 0.1}
    assert resolve_config(rule | with_one) == resolve_config(rule)


def test_a_class_from_outside_may_have_one(tiny):
    own = tiny | {"optimizer.name": "torch.optim:SGD", "schedule.momentum.name": "linear"}
    config = resolve_config(own | {"schedule.momentum.to": 0.9})
    assert config.schedule.hyper["momentum"] == {"name": "linear", "from": 0, "to": 0.9, "start": 0, "end": 1}


def test_listings_know_the_parts():
    assert is_setting("schedule.p.to") and is_setting("schedule.weight_decay.width")
    assert not is_setting("schedule.mine.to") and is_setting("schedule.mine.to", ["my:Own"])
    assert param_of("htmuon", "schedule.p.to").high == 1
