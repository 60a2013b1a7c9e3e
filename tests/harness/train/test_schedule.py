"""Schedules against the released code's multipliers (tests/golden/lr_schedule.json) and their own laws."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.schema import SCHEDULES
from harness.train.schedule import multiplier

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "lr_schedule.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["schedules"], ids=lambda case: str(case["total"]))
def test_cosine_follows_the_released_code(case):
    for step, expected in case["points"]:
        if step < case["total"]:  # its extra update N+1 is a slip that we do not make
            ours = multiplier("cosine", step, case["total"], case["warmup"], case["min_ratio"], decay=0.2)
            assert ours == pytest.approx(expected, abs=GOLDEN["tol"])


@given(
    name=st.sampled_from(SCHEDULES),
    total=st.integers(1, 300),
    warmup=st.floats(0, 0.9),
    floor=st.floats(0, 1),
    decay=st.floats(0, 1),
)
def test_every_schedule_rises_then_never_rises_again(name, total, warmup, floor, decay):
    values = [multiplier(name, step, total, warmup, floor, decay) for step in range(total)]
    assert all(0 <= value <= 1 for value in values)
    top = round(warmup * total)
    rise, fall = values[:top], values[top:]
    assert rise == sorted(rise) and fall == sorted(fall, reverse=True)
    assert all(value >= floor - 1e-12 for value in fall)


def test_wsd_is_flat_then_linear():
    values = [multiplier("wsd", step, 10, 2, 0.0, decay=0.4) for step in range(10)]
    assert values == pytest.approx([0, 0.5, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25])
