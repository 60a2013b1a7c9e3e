"""Schedules against the released code's multipliers (tests/golden/lr_schedule.json) and their own laws."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from htbench.harness.config.key import run_key
from htbench.harness.config.schema import SCHEDULES, ScheduleConfig
from htbench.harness.config.settings import as_stored, resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.train.learner import Learner
from htbench.harness.train.schedule import multiplier
from tests.helpers.interrupting import finish

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "lr_schedule.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["schedules"], ids=lambda case: str(case["total"]))
def test_cosine_follows_the_released_code(case):
    for step, expected in case["points"]:
        if step < case["total"]:  # its extra update N+1 is a slip that we do not make
            rule = ScheduleConfig(warmup=case["warmup"], floor=case["min_ratio"])
            ours = multiplier(rule, step, case["total"])
            assert ours == pytest.approx(expected, abs=GOLDEN["tol"])


def values(total, **fields):
    """The factors of a whole run."""
    rule = ScheduleConfig(**fields)
    return [multiplier(rule, step, total) for step in range(total)]


falling = st.lists(st.floats(0, 1), min_size=1, max_size=4).map(lambda found: sorted(found, reverse=True))


@given(
    name=st.sampled_from(SCHEDULES),
    total=st.integers(1, 300),
    warmup=st.floats(0, 0.9) | st.integers(1, 40),
    floor=st.floats(0, 1),
    decay=st.floats(0, 1),
    exponent=st.floats(0, 3),
    factors=falling,
)
def test_every_schedule_rises_then_never_rises_again(name, total, warmup, floor, decay, exponent, factors):
    at = [(number + 1) / len(factors) for number in range(len(factors))]
    parts = {"floor": floor, "decay": decay, "exponent": exponent, "at": at, "factors": factors}
    top = round(warmup * total) if warmup < 1 else warmup
    found = values(total, name=name, warmup=warmup, **parts)
    assert all(0 <= value <= 1 for value in found)
    rise, fall = found[:top], found[top:]
    assert rise == [step / top for step in range(len(rise))]
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(fall))
    if name in ("cosine", "linear", "wsd"):
        assert all(value >= floor - 1e-12 for value in fall)
    if fall and not (name == "wsd" and top > total - max(1, round(decay * total))):
        assert fall[0] == pytest.approx(1 if name != "piecewise" or at[0] * total > top else fall[0])


@given(
    name=st.sampled_from(["cosine", "linear", "wsd", "power"]),
    warmup=st.integers(0, 20),
    floor=st.floats(0, 0.1),
    decay=st.floats(0.2, 0.8),
    exponent=st.floats(0, 0.5),
)
def test_schedules_have_no_jump_and_end_at_their_floor(name, warmup, floor, decay, exponent):
    """After the warm-up no step of 2,000 moves the rate by more than the cooldown, or the power, does."""
    found = values(2000, name=name, warmup=warmup, floor=floor, decay=decay, exponent=exponent)[warmup:]
    largest = max(2 / 400, 1 - (max(1, warmup) / (max(1, warmup) + 1)) ** exponent) + 1e-9
    assert all(abs(after - before) <= largest for before, after in itertools.pairwise(found))
    # What a power has fallen to before its cooldown may be below the floor, and then stays.
    power = (max(1, warmup) / (2000 * (1 - decay))) ** exponent if name == "power" else 1.0
    assert found[-1] == pytest.approx(min(floor, power), abs=2 / 400)


def test_wsd_is_flat_then_linear():
    found = values(10, name="wsd", warmup=2, floor=0.0, decay=0.4)
    assert found == pytest.approx([0, 0.5, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25])


def test_linear_goes_to_zero():
    found = values(6, name="linear", warmup=2, floor=0.0)
    assert found == pytest.approx([0, 0.5, 1, 0.75, 0.5, 0.25])


def test_power_is_noams_rule_and_does_not_know_the_horizon_before_its_cooldown():
    """Vaswani et al.: lr ~ min(s^-.5, s w^-1.5), here with the peak 1 at s = w."""
    noam = [min(step**-0.5, step * 16**-1.5) * 4 for step in range(1, 400)]
    short, long = (values(total, name="power", warmup=16, decay=0.25) for total in (400, 4000))
    assert short[1:300] == pytest.approx(noam[:299]) and short[:300] == long[:300]
    assert short[350] < noam[349]


@pytest.mark.parametrize("warmup", [0, 5, 0.2])
def test_piecewise_leads_through_its_points_and_jumps_where_two_meet(warmup):
    at, factors = (0.5, 0.5, 0.75, 1.0), (1.0, 0.5, 0.5, 0.0)
    found = values(100, name="piecewise", warmup=warmup, at=at, factors=factors)
    assert found[20:50] == [1.0] * 30 and found[50:75] == [0.5] * 25
    assert found[75:] == pytest.approx([0.5 * (100 - step) / 25 for step in range(75, 100)])


def test_after_its_last_point_piecewise_stays():
    found = values(10, name="piecewise", warmup=0, at=[0.2, 0.4], factors=[1, 0.3])
    assert found == pytest.approx([1, 1, 1, 0.65, *[0.3] * 6])


PIECES = {"task": "digits", "model": "resnet-nano", "steps": 8, "schedule.name": "piecewise"}


@pytest.mark.parametrize(
    ("at", "factors", "said"),
    [
        ([], [], "at least one"),
        ([0.5], [], "schedule.factors=[] has 0"),
        ([0.5, 0.2], [1, 0], "must rise"),
        ([0.5, 1.5], [1, 0], "1.5"),
        ([0.5, 1], [1, -1], "-1"),
    ],
    ids=str,
)
def test_pieces_that_make_no_schedule_are_refused(at, factors, said):
    with pytest.raises(UsageError) as refused:
        resolve_config(PIECES | {"schedule.at": at, "schedule.factors": factors})
    assert said in str(refused.value)


def test_a_group_has_the_points_of_the_run_or_none():
    group = {"optimizer.groups.vectors.schedule": "piecewise"}
    with pytest.raises(UsageError, match="only if schedule.name is"):
        resolve_config(PIECES | {"schedule.name": "cosine"} | group)
    resolve_config(PIECES | {"schedule.at": [0.5], "schedule.factors": [0]} | group)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("linear", {}),
        ("power", {"schedule.exponent": 1.0}),
        ("piecewise", {"schedule.at": [0.5, 1], "schedule.factors": [1, 0]}),
    ],
)
def test_a_run_follows_its_schedule_in_both_halves(tmp_path, tiny, monkeypatch, name, parts):
    """In the rule for matrices and in the AdamW for the rest; the config comes back from its record."""
    seen, update = [], Learner.update

    def watched(learner, step):
        loss = update(learner, step)
        seen.append([group["lr"] / group["initial_lr"] for group in learner.optimizer.param_groups])
        return loss

    monkeypatch.setattr(Learner, "update", watched)
    rule = {"optimizer.name": "muon", "optimizer.lr": 0.02, "optimizer.aux_lr": 0.004}
    config = resolve_config(tiny | rule | {"schedule.name": name} | parts)
    record, curve = finish(config, tmp_path)
    expected = [multiplier(config.schedule, step, 8) for step in range(8)]
    assert [row["lr"] for row in curve if "lr" in row] == pytest.approx([0.02 * part for part in expected])
    assert len(seen[0]) > 1 and seen == [pytest.approx([part] * len(seen[0])) for part in expected]
    assert run_key(as_stored(record.settings)) == record.key == run_key(resolve_config(record.settings))
