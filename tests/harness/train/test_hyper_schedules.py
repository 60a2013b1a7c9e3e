"""Schedules of hyperparameters in a run: the values step by step, whose groups get them, and a resume."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from htbench.harness import tasks
from htbench.harness.config.hyper_schedules import SHAPES
from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.parallel.group import ALONE
from htbench.harness.train import schedule
from htbench.harness.train.learner import Learner
from tests.helpers.interrupting import assert_resumes, finish

# As published: DynMuon's p, Soft-Muon's blend over the last sixth, Contra-Muon's share over two thirds.
DYNMUON = {"name": "sigmoid", "from": 0.25, "to": -0.25, "centre": 0.04, "width": 0.04}
SOFT_MUON = {"name": "linear", "from": 0, "to": 0.8, "start": 5 / 6, "end": 1}
CONTRA_MUON = {"name": "linear", "from": 0.2, "to": 0, "start": 0, "end": 2 / 3}
OF_P = {"name": "cosine", "from": 0.25, "to": 0, "start": 0.25, "end": 0.75}
P = {f"schedule.p.{part}": value for part, value in OF_P.items()}


def values(rule, total):
    return [schedule.value(rule, step, total) for step in range(total)]


def test_published_schedules():
    by_formula = [-0.25 + 0.5 / (1 + math.exp((step / 3175 - 0.04) / 0.04)) for step in range(3175)]
    assert values(DYNMUON, 3175) == pytest.approx(by_formula, abs=1e-12)
    assert values(SOFT_MUON, 12) == pytest.approx([0] * 11 + [0.4])
    assert values(CONTRA_MUON, 6) == pytest.approx([0.2, 0.15, 0.1, 0.05, 0, 0])


def test_a_cosine_is_half_of_one():
    at = [schedule.value(OF_P, step, 8) for step in range(8)]
    quarter = 0.125 * (1 + math.cos(math.pi / 4))
    assert at == pytest.approx([0.25, 0.25, 0.25, quarter, 0.125, 0.25 - quarter, 0, 0])


@given(
    name=st.sampled_from(sorted(SHAPES)),
    ends=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    start=st.floats(0, 0.5),
    width=st.floats(1e-6, 2),
    total=st.integers(1, 100),
)
def test_values_lead_from_one_end_to_the_other(name, ends, start, width, total):
    rule = {
        "name": name,
        "from": ends[0],
        "to": ends[1],
        "start": start,
        "end": 1,
        "centre": 0.5,
        "width": width,
    }
    found = values(rule, total)
    low, high = sorted(ends)
    assert all(low - 1e-15 <= value <= high + 1e-15 for value in found)
    steps = [b - a for a, b in zip(found, found[1:], strict=False)]
    assert all(step * (ends[1] - ends[0]) >= -1e-15 for step in steps)


def learner(settings, cache):
    config = resolve_config(settings)
    run = resolved(config)
    return Learner(run, tasks.load_for(run.task, config, cache), 8, torch.device("cpu"), ALONE)


def test_the_groups_of_the_rule_get_the_value_before_every_step(tiny, tmp_path):
    decay = {"schedule.weight_decay.name": "linear", "schedule.weight_decay.to": 0}
    run = learner(tiny | {"optimizer.name": "htmuon", "optimizer.p": 0.25} | P | decay, tmp_path)
    for step in range(3):
        run.update(step)
        rule, aux = (part.param_groups for part in run.optimizer.parts)
        assert [group["p"] for group in rule] == [schedule.value(OF_P, step, 8)]
        assert [group["weight_decay"] for group in rule] == [pytest.approx(0.1 * (1 - step / 8))]
        assert [group["weight_decay"] for group in aux] == [0.1] and "p" not in aux[0]


@pytest.mark.parametrize("first", [0, 0.1])
def test_vectors_without_weight_decay_keep_none(tiny, tmp_path, first):
    rule = {"optimizer.name": "adamw", "optimizer.no_decay_1d": True, "schedule.weight_decay.name": "linear"}
    run = learner(
        tiny | rule | {"schedule.weight_decay.from": first, "schedule.weight_decay.to": 0.2}, tmp_path
    )
    run.update(4)
    matrices, vectors = run.optimizer.param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (pytest.approx(0.1 + first / 2), 0)


def test_a_class_from_outside_without_the_value_in_its_groups_is_refused(tiny, tmp_path, monkeypatch):
    (tmp_path / "hidden_beta.py").write_text(
        "import torch\n"
        "class Hidden(torch.optim.SGD):\n"
        "    def __init__(self, params, lr=0.1, beta=0.5):\n"
        "        super().__init__(params, lr=lr, momentum=beta)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = {"optimizer.name": "hidden_beta:Hidden", "schedule.beta.name": "linear", "schedule.beta.to": 0.9}
    with pytest.raises(UsageError, match=r"'hidden_beta:Hidden' has no 'beta' in its groups"):
        finish(resolve_config(tiny | own), tmp_path / "store")


@pytest.mark.parametrize(
    ("name", "scheduled", "rule"), [("htmuon", "p", OF_P), ("torch.optim:SGD", "momentum", CONTRA_MUON)]
)
def test_a_stopped_run_goes_on_with_the_same_bits(tmp_path, tiny, name, scheduled, rule):
    parts = {f"schedule.{scheduled}.{part}": value for part, value in rule.items()}
    plain = tiny | {"optimizer.name": name, "optimizer.lr": 0.02}
    whole, _ = assert_resumes(plain | parts, tmp_path, 3, 6)
    first = {f"optimizer.{scheduled}": rule["from"]}
    constant, _ = finish(resolve_config(plain | first), tmp_path / "constant")
    assert constant.metrics != whole.metrics, "the schedule does something"
