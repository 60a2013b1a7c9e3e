"""`compile` of a sweep file: all of its runs are compiled or none."""

import pytest

from htbench.harness.errors import UsageError
from htbench.sweeps.plan.planned import search_points
from htbench.sweeps.spec import sweep_file

SPEC = """
base: {task: pydocs, model: llama-s1, batch_size: 8, seq_len: 64, steps: 8000, optimizer.name: muon}
space: {optimizer.lr: [0.01, 0.02, 0.04, 0.08, 0.16]}
seeds: [0, 1, 2, 3, 4]
compile: auto
"""


@pytest.mark.parametrize(
    ("was", "now", "compiled"),
    [
        ("", "", {True}),  # 25 runs of 8,000 updates
        ("auto", "false", {False}),
        ("auto", "true", {True}),
        ("seeds: [0, 1, 2, 3, 4]", "seeds: [0, 1, 2, 3]", {False}),
        ("steps: 8000", "steps: 1000", {False}),
        ("steps: 8000", "steps: 8e3", {True}),  # which YAML takes for words
        ("steps: 8000", "epochs: 900", {False}),  # nobody has counted the updates
        ("model: llama-s1", "model: llama-s1, compile: false", {False}),
        ("space: {", "space: {model: [llama-s1, llama-nano], ", {True}),
        ("seeds: [0, 1, 2, 3, 4]", "blocks: [{name: a, set: {steps: 32000}}, {name: b}]", {True}),
        ("space: {", "space: {steps: [90000, 9], ", {False}),
    ],
)
def test_auto_compiles_where_the_updates_of_the_file_make_up_for_it(write_spec, was, now, compiled):
    spec = sweep_file.load(write_spec(SPEC.replace(was, now)))
    assert {planned.config.compile for planned in search_points(spec)} == compiled


def test_another_value_is_named(write_spec):
    with pytest.raises(UsageError, match="compile' must be true, false or auto, not 'sometimes'"):
        sweep_file.load(write_spec(SPEC.replace("auto", "sometimes")))
