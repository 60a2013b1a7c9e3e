"""Of every field outside the key that is said not to change the numbers: it does not, bit for bit."""

import pytest

from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import declarations, resolve_config
from htbench.harness.store import Store
from htbench.harness.store import curve as metrics
from htbench.harness.train import run

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


def finish(settings, root):
    """Key, final figures and curve, the latter without evaluations on the way."""
    store = Store(root)
    record = run.run(resolved(resolve_config(settings)), store)
    rows = metrics.read(store.run_folder(record.key) / "metrics.jsonl")
    curve = [row for row in rows if "loss" in row or row["step"] == record.steps]
    figures = {name: value for name, value in record.metrics.items() if name != "untrained_val_loss"}
    return record.key, figures, curve


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The runs without any of the fields, made once."""
    made = {}

    def result(settings):
        name = settings["model"]
        if name not in made:
            made[name] = finish(settings, tmp_path_factory.mktemp(name))
        return made[name]

    return result


# A language model proves them together: each alone would take the suite a minute.
@pytest.mark.parametrize(
    ("field", "workload"),
    [*((field, {}) for field in INERT), ("all of them", {}), ("all of them", LM)],
    ids=str,
)
def test_a_field_outside_the_key_changes_no_bit(tmp_path, tiny, plain, field, workload):
    settings = tiny | workload
    changed = INERT if field == "all of them" else {field: INERT[field]}
    assert finish(settings | changed, tmp_path) == plain(settings)


def test_each_field_outside_the_key_is_proven_or_belongs_to_the_provenance():
    outside = {name for name, field in declarations() if not field.metadata["key"]}
    assert outside == PROVENANCE | INERT.keys()


def test_the_proof_is_made_with_other_values_than_the_defaults(tiny):
    config = resolve_config(tiny)
    for name, value in INERT.items():
        group, _, field = name.rpartition(".")
        assert getattr(getattr(config, group) if group else config, field) != value
    assert run_key(resolve_config(tiny | INERT)) == run_key(config)
