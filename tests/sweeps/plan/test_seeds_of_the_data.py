"""`data_seeds`: each search seed has an order of the data of its own, in every round; winners get others."""

import pytest

from htbench.harness.errors import UsageError
from htbench.sweeps.plan.planned import by_objective, search_points
from htbench.sweeps.plan.replicas import next_round, replicas
from htbench.sweeps.spec import sweep_file
from tests.helpers.records import scored

TEXT = """
name: two
base: {task: digits, model: resnet-nano, steps: 2, batch_size: 16}
seeds: [0, 3]
data_seeds: [5, 7]
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.1, 0.2]}}
search: {mode: refine, trials: 8}
replicate: {seeds: 2}
"""


def seeds(planned):
    return [(p.config.seed, p.config.data_seed) for p in planned]


def test_every_setting_of_every_round_runs_on_each_pair_of_seeds(write_spec):
    spec = sweep_file.load(write_spec(TEXT))
    (group,) = by_objective(spec, search_points(spec))
    assert seeds(group) == [(0, 5), (3, 7)] * 2
    losses = {0.1: 1.0, 0.2: 2.0}
    records = {
        p.point.key: scored("digits", val_accuracy=0.5, val_loss=losses[p.config.optimizer.lr]) for p in group
    }
    later = next_round(spec, group, records)
    assert seeds(later) == [(0, 5), (3, 7)] and {p.config.optimizer.lr for p in later} == {0.05}
    assert seeds(replicas(spec, group, records)) == [(1000, 1000), (1001, 1001)]


def test_each_seed_needs_one(write_spec):
    with pytest.raises(UsageError, match="'data_seeds' has 1 seeds beside 2 in 'seeds'"):
        sweep_file.load(write_spec(TEXT.replace("[5, 7]", "[5]")))
