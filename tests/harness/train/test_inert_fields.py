"""Of every field outside the key that is said not to change the numbers: it does not, bit for bit."""

import pytest

from htbench.harness.config.key import run_key
from htbench.harness.config.settings import declarations, resolve_config
from tests.helpers.interrupting import finish

# These change the last digits, by the order of sums: they belong to the provenance of a run.
PROVENANCE = {"threads", "compile", "processes", "micro_batch", "device", "activation_checkpointing"}

INERT = {
    "shard_optimizer": False,
    "evaluation.every": 2,
    "evaluation.untrained": True,
    "checkpoint.every_steps": 1,
    "checkpoint.every_seconds": 0.0,
    "checkpoint.keep_weights": True,
    "spectra.every": 3,
    "spectra.final": True,
    "spectra.method": "ks",
    "spectra.layers": "all",
    "spectra.updates": (0, 0.5),
    "log_every": 3,
}
LM = {"task": "pydocs", "model": "llama-nano", "optimizer.name": "htmuon", "optimizer.lr": 0.02}


def numbers_of(settings, root):
    """Key, final figures and curve, the latter without evaluations on the way."""
    record, rows = finish(resolve_config(settings), root)
    curve = [row for row in rows if "loss" in row or row["step"] == record.steps]
    figures = {name: value for name, value in record.metrics.items() if name != "untrained_val_loss"}
    return record.key, figures, curve


@pytest.mark.parametrize("workload", [{}, LM], ids=["digits", "pydocs"])
def test_fields_outside_the_key_change_no_bit(tmp_path, tiny, workload):
    """All of them at once: take them away one by one if it fails."""
    settings = tiny | workload
    assert numbers_of(settings | INERT, tmp_path / "changed") == numbers_of(settings, tmp_path / "plain")


def test_each_field_outside_the_key_is_proven_or_belongs_to_the_provenance():
    outside = {name for name, field in declarations() if not field.metadata["key"]}
    assert outside == PROVENANCE | INERT.keys()


def test_the_proof_is_made_with_other_values_than_the_defaults(tiny):
    config = resolve_config(tiny)
    for name, value in INERT.items():
        group, _, field = name.rpartition(".")
        assert getattr(getattr(config, group) if group else config, field) != value
    assert run_key(resolve_config(tiny | INERT)) == run_key(config)
