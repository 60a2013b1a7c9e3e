"""Searches in a synthetic store, as if an Optuna study had asked for their points."""

import dataclasses
import json

from htbench.harness.store.points import slot_path

LOG = {"low": 0.001, "high": 0.1, "log": True, "whole": False}


def search(bench, make, axes, trials, sweep="tpe", optimizer="muon"):
    """A search over `axes` with trials as settings, the best one last."""
    study = f"{sweep}.{optimizer}"
    for number, settings in enumerate(trials):
        given = {name.removeprefix("optimizer."): value for name, value in settings.items()}
        metrics = make.image(0.5 + number / 100, 0.4)
        bench.add("digits", optimizer, given.pop("lr"), sweep=sweep, metrics=metrics, **given)
        point = bench.points[sweep][-1]
        bench.points[sweep][-1] = dataclasses.replace(point, slot=f"{study}/{number}")
    path = slot_path(bench.store.root, sweep, f"{study}/0").with_name("study.json")
    path.parent.mkdir(parents=True)
    names = {"name": study, "sweep": sweep, "block": optimizer, "storage": "", "fixed": {}}
    terms = {"mode": "tpe", "trials": len(trials), "seed": 0, "pruner": "", "pruner_options": {}}
    path.write_text(json.dumps(names | terms | {"axes": axes}))


def lrs(*values):
    return [{"optimizer.lr": value} for value in values]
