"""Curves on the page: few points, every spike, and the very numbers as float32."""

import base64
import math
import random
import struct

import pytest

from results.page.curves import MOST_POINTS, curves, encoded, points, thinned


def decode(text):
    """Independent of the writer: steps and values."""
    raw = base64.b64decode(text)
    numbers = struct.unpack(f"<{len(raw) // 4}f", raw)
    half = len(numbers) // 2
    return list(zip(numbers[:half], numbers[half:], strict=True))


@pytest.mark.parametrize("length", [1, 2, 239, 240, 241, 1000, 10007])
def test_thinning_keeps_ends_extremes_and_order(length):
    noise = random.Random(length)
    curve = [(step, noise.random()) for step in range(1, length + 1)]
    kept = thinned(curve, MOST_POINTS)
    assert len(kept) == min(length, MOST_POINTS) and set(kept) <= set(curve)
    assert [step for step, _ in kept] == sorted({step for step, _ in kept})
    assert kept[0] == curve[0] and kept[-1] == curve[-1]
    for best in (min, max):
        assert best(curve, key=lambda point: point[1]) in kept


def test_a_spike_of_one_step_is_kept():
    curve = [(step, 1.0) for step in range(1, 5001)]
    curve[3210] = (3211, 9.0)
    assert (3211, 9.0) in thinned(curve, 60)


def test_a_flat_stretch_may_take_a_single_point():
    assert len(thinned([(step, 1.0) for step in range(1000)], 50)) <= 50


def test_encoding_is_float32():
    curve = [(1, 6.9314718), (16_000_000, 1e-7)]
    assert decode(encoded(curve)) == [
        (1, struct.unpack("<f", struct.pack("<f", 6.9314718))[0]),
        (16_000_000, struct.unpack("<f", struct.pack("<f", 1e-7))[0]),
    ]


def test_values_that_are_not_finite_are_left_out():
    rows = [{"step": 1, "loss": None}, {"step": 2, "loss": 2.0}, {"step": 3, "loss": math.inf}]
    rows += [{"step": 3, "val_loss": 5}, {"step": 4, "loss": "x"}]
    assert list(points(rows, "loss")) == [(2, 2.0)]
    found, count = curves(rows)
    assert {kind: decode(text) for kind, text in found.items()} == {"train": [(2, 2)], "val": [(3, 5)]}
    assert count == 2


def test_a_run_without_curve_has_none():
    assert curves([]) == ({}, 0)
