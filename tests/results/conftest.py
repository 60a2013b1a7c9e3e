"""Synthetic stores: plans and records written the way sweeps and runs write them, without any training."""

import dataclasses
import hashlib
import json
import math
import random
import shutil
import statistics
from types import SimpleNamespace

import pytest

from htbench.harness.config.settings import resolve_config as make_config
from htbench.harness.show.status import Status
from htbench.harness.store import Store
from htbench.harness.store.owner import Owner
from htbench.harness.store.points import REPLICATE, SEARCH, Point, sweep_folder, write_points
from htbench.harness.store.record import RunRecord
from htbench.harness.system import atomic
from htbench.optimizers import ZOO
from tests.helpers.small_languages import small_languages

WORKLOADS = {
    "pydocs": {"task": "pydocs", "model": "llama-nano", "steps": 200, "batch_size": 16},
    "digits": {"task": "digits", "model": "resnet-nano", "steps": 100, "batch_size": 64},
}
BEST = {"adamw": (0.003, 0.0), "sgdm": (0.3, 0.35), "muon": (0.02, -0.15), "htmuon": (0.02, -0.2)}  # lr, loss
RATES = {"adamw": (0.001, 0.003, 0.01), "sgdm": (0.1, 0.3, 1.0), "muon": (0.01, 0.02, 0.04)}
POWERS = (0.0625, 0.125, 0.25)
FRESH = (1, 2, 3)
LAYERS = {"layers.0.q_proj.weight": (0, "q"), "layers.0.up_proj.weight": (0, "up")}
LAYERS |= {"layers.1.q_proj.weight": (1, "q")}
FINGERPRINT = "0123456789abcdef"
COST = {
    **{"parameters": 1e6, "tokens": 0, "flops_per_step": 3e9, "optimizer_flops_per_step": 1e9},
    **{"state_bytes": 8e6, "estimated_peak_memory": 5e7},
}
ENVIRONMENT = {"code": "0123456789ab", "torch": "2.13.0", "python": "3.11.7", "world_size": 1}


@pytest.fixture(autouse=True)
def languages():
    """Small scales have language models, too; a module of tests on what is shipped overrides this."""
    with small_languages():
        yield


class Bench:
    """A store to be filled run by run; `write` puts the plans into it."""

    def __init__(self, root):
        self.store = Store(root)
        self.points = {}

    def add(
        self,
        workload,
        optimizer,
        lr,
        *,
        stage=SEARCH,
        seed=0,
        sweep=None,
        block=None,
        state="completed",
        metrics=None,
        reason="",
        steps=None,
        curve=True,
        seconds=0.01,
        cpu="Testium 1",
        base=None,
        environment=None,
        cost=None,
        **hyper,
    ):
        """Plan one run and give it an outcome; `state` is a record's status, waiting, running or failed."""
        base = WORKLOADS[workload] | (base or {})
        overrides = base | {"optimizer.name": optimizer, "optimizer.lr": lr, "seed": seed}
        overrides |= {f"optimizer.{name}": value for name, value in hyper.items()}
        if stage == REPLICATE:
            overrides["data_seed"] = seed
        key = hashlib.sha256(json.dumps(overrides, sort_keys=True).encode()).hexdigest()[:12]
        overrides["data_fingerprint"] = FINGERPRINT  # that of real data depends on the machine
        point = Point(sweep or f"demo-{workload}", block or optimizer, stage, key, overrides)
        self.points.setdefault(point.sweep, []).append(point)
        if state in ("completed", "diverged", "pruned"):
            self._record(
                *(point, state, metrics or {}, steps or base["steps"]),
                *(seconds, cpu, environment, cost or COST),
            )
            if curve:
                self.curve(key, steps or base["steps"], seed, metrics)
        elif state in ("running", "failed"):
            self._attempt(key, {"reason": reason, "message": "/a/path"} if state == "failed" else None)
        return key

    def _record(self, point, status, metrics, steps, seconds, cpu, environment, cost):
        config = _config(point.overrides)
        self._folder(point.key)
        self.store.write_record(
            RunRecord(
                key=point.key,
                config=config,
                status=Status(status),
                metrics=metrics,
                steps=steps,
                useful_seconds=steps * seconds,
                seconds_per_step=seconds,
                peak_memory=1,
                cost=cost,
                attempts=1,
                environment=ENVIRONMENT | {"cpu": cpu} | (environment or {}),
                timing={"mean": seconds, "steps": steps, "warmup": 10, "cpu": seconds},
                divergence={"kind": "loss_not_finite"} if status == "diverged" else {},
                pruned_by=[point.study] if status == "pruned" else [],
            )
        )
        self.store.note([point.key])

    def edit(self, key, **changes):
        """Change a record as people do it by hand: its digest stays that of the record as it was."""
        path = self.store.files(key).record
        atomic.write_json(path, json.loads(path.read_text()) | changes)

    def _folder(self, key):
        folder = self.store.run_folder(key)
        (folder / "attempts").mkdir(parents=True, exist_ok=True)
        return folder

    def _attempt(self, key, outcome):
        ended = outcome and 1.0
        attempt = {"owner": Owner.current().to_json(), "began": 0, "ended": ended, "outcome": outcome}
        (self._folder(key) / "attempts" / "1.json").write_text(json.dumps(attempt))

    def curve(self, key, steps, seed, metrics=None):
        """A falling training loss with the noise of batches, and evaluations that end as the record says."""
        noise, final = random.Random(f"{key}-{seed}"), metrics or {}
        losses = [3 * math.exp(-6 * s / steps) + noise.gauss(0, 0.08) for s in range(1, steps + 1)]
        level = final.get("train_loss", 2.0) - statistics.fmean(losses[-max(1, steps // 10) :])
        rows = [{"step": s, "loss": level + loss, "lr": 0.01} for s, loss in enumerate(losses, 1)]
        rows += [_evaluation(steps * quarter // 4, 1 - quarter / 4, level, final) for quarter in (1, 2, 3)]
        for split in ("val_", "test_"):
            figures = {name: value for name, value in final.items() if name.startswith(split)}
            rows += [{"step": steps} | figures] if figures else []
        rows.sort(key=lambda row: row["step"])  # as a run writes them
        path = self._folder(key) / "metrics.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def spectra(self, key, alphas, *, steps=100, flags=(), updates=(), n=64):
        """What a run records of three layers: `alphas` at its end, `updates` by step and singular value."""
        rows = [
            {"step": step, "layer": name, "rows": n, "cols": n, "update": [value] * n, "momentum": [0.1] * n}
            for step, value in updates
            for name in LAYERS
        ]
        for name, alpha in zip(LAYERS, alphas, strict=True):
            own = {"alpha": alpha, "alpha_random": 2.1, "sigma_max": 3.0, "fro": 9.0, "method": "hill_mid"}
            row = {"step": steps, "layer": name, **dict(zip(("block", "kind"), LAYERS[name], strict=True))}
            rows.append(row | own | {"flags": list(flags) if name == "layers.1.q_proj.weight" else []})
        path = self._folder(key) / "spectra.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def write(self):
        """Put the plans into the store; returns it."""
        for sweep, points in self.points.items():
            sweep_folder(self.store.root, sweep).mkdir(parents=True, exist_ok=True)
            write_points(self.store.root, sweep, points)
        return self.store


def _evaluation(step, left, level, final):
    """What a run evaluates on the way: worse than in the end by the share of the run that is left."""
    found = {"step": step, "val_loss": level + 0.4 * left}
    for name, better in (("val_perplexity", -1), ("val_accuracy", 1)):
        if final.get(name) is not None:
            found[name] = final[name] * (1 - better * left)
    return found


def _config(overrides):
    """As a record has it; an optimizer that nobody knows is made of one that everybody knows."""
    name = overrides["optimizer.name"]
    known = overrides | {"optimizer.name": name if name in ZOO else "adamw"}
    config = json.loads(json.dumps(dataclasses.asdict(make_config(known))))
    return config | {"optimizer": config["optimizer"] | {"name": name}}


def text(loss, *, test=0.02, untrained=6.93):
    """The metrics of a language model's record with this validation loss."""
    found = {"train_loss": loss - 0.1, "untrained_val_loss": untrained}
    for split, value in (("val", loss), ("test", loss + test)):
        found |= {f"{split}_loss": value, f"{split}_loss_biased": value * 0.9}
        found |= {f"{split}_perplexity": math.exp(value), f"{split}_bits_per_byte": value / math.log(2) / 2.5}
    return found


def image(accuracy, loss, *, test=None):
    """The metrics of a classifier's record."""
    test = accuracy - 0.01 if test is None else test
    found = {"train_loss": loss - 0.1, "untrained_val_loss": 2.31}
    found |= {"val_samples": 360, "test_samples": 360}
    return found | {"val_accuracy": accuracy, "val_loss": loss, "test_accuracy": test, "test_loss": loss}


def demo(bench):
    """A whole demo, everything completed except where a far learning rate diverged."""
    for workload in WORKLOADS:
        for optimizer in BEST:
            _grid(bench, workload, optimizer)
    return bench


def _grid(bench, workload, optimizer):
    scores = {}
    for lr in RATES.get(optimizer, RATES["muon"]):
        for p in POWERS if optimizer == "htmuon" else (None,):
            hyper = {"p": p} if p else {}
            if (optimizer, lr) == ("sgdm", 1.0):
                reason = f"the loss was not finite at step {17 if workload == 'digits' else 31}"
                steps = int(reason.split()[-1])
                bench.add(workload, optimizer, lr, state="diverged", reason=reason, steps=steps, curve=False)
                continue
            scores[lr, p] = _metrics(workload, optimizer, lr, p, seed=0)
            bench.add(workload, optimizer, lr, metrics=scores[lr, p], **hyper)
    lr, p = min(scores, key=lambda one: scores[one]["val_loss"])
    hyper = {"p": p} if p else {}
    for seed in FRESH:
        metrics = _metrics(workload, optimizer, lr, p, seed)
        bench.add(workload, optimizer, lr, stage=REPLICATE, seed=seed, metrics=metrics, **hyper)


def _metrics(workload, optimizer, lr, p, seed):
    noise = random.Random(f"{workload}{optimizer}{lr}{p}{seed}").gauss(0, 0.01)
    best, level = BEST[optimizer]
    excess = 0.12 * math.log(lr / best) ** 2 + 0.5 * abs((p or 0.125) - 0.125) + level + noise
    if workload == "pydocs":
        return text(round(4.2 + excess, 6))
    right = round(360 * (0.95 - 0.15 * excess))
    return image(right / 360, round(0.4 + excess, 6))


def mixed(bench):
    """Everything that can become of a run, in two workloads that are far from finished."""
    for lr, accuracy, loss in ((0.001, 0.90, 0.5), (0.003, 0.95, 0.30), (0.01, 0.95, 0.25)):
        bench.add("digits", "adamw", lr, metrics=image(accuracy, loss))  # a tie, decided by loss, at the edge
    for seed in FRESH:
        bench.add("digits", "adamw", 0.01, stage=REPLICATE, seed=seed, metrics=image(0.94 + seed / 100, 0.3))
    for lr, step in ((0.3, 17), (1.0, 3)):
        why = f"the loss was not finite at step {step}"
        bench.add("digits", "sgdm", lr, state="diverged", reason=why, steps=step, curve=False)
    bench.add("digits", "muon", 0.01, metrics=image(0.96, 0.2))
    bench.add("digits", "muon", 0.02, metrics=image(0.97, 0.2))  # the best so far, without replicas
    bench.add("digits", "muon", 0.04, state="waiting")
    bench.add("digits", "htmuon", 0.01, p=0.0, metrics=image(0.96, 0.2))
    bench.add("digits", "htmuon", 0.02, p=0.0, metrics=image(0.98, 0.1))
    bench.add("digits", "htmuon", 0.04, p=0.0, state="running")
    bench.add("digits", "htmuon", 0.01, p=0.125, state="failed", reason="oom")
    bench.add("digits", "htmuon", 0.02, p=0.125, state="pruned", metrics={"val_loss": 3.0})
    bench.add("digits", "htmuon", 0.04, p=0.125, metrics=image(0.95, 0.3))
    for seed, state in zip(FRESH, ("completed", "completed", "running"), strict=True):
        metrics = image(0.97 + seed / 100, 0.1)
        bench.add("digits", "htmuon", 0.02, p=0.0, stage=REPLICATE, seed=seed, state=state, metrics=metrics)
    for optimizer, lr, loss in (("adamw", 0.003, 4.2), ("muon", 0.02, 4.0), ("htmuon", 0.02, 3.9)):
        hyper = {"p": 0.125} if optimizer == "htmuon" else {}
        bench.add("pydocs", optimizer, lr, metrics=text(loss), **hyper)
        for seed in FRESH[:1] if optimizer == "adamw" else FRESH:
            metrics = text(loss + seed / 1000)
            key = bench.add("pydocs", optimizer, lr, stage=REPLICATE, seed=seed, metrics=metrics, **hyper)
            bench.spectra(key, (2.0, 2.5, 2.2 + seed / 10), steps=200, updates=[(1, 0.9), (90, 1.1)])
    bench.add("pydocs", "sgdm", 0.3, metrics=text(4.0) | {"val_perplexity": None})  # exp overflowed
    edited = bench.add("pydocs", "adam", 0.003, metrics=text(4.3))
    bench.edit(edited, metrics=text(3.0))
    return bench


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "store")


@pytest.fixture(scope="session")
def _stores(tmp_path_factory):
    """Filled once: thousands of durable writes take longer than all that is tested on them."""
    folder = tmp_path_factory.mktemp("stores")
    return {fill.__name__: fill(Bench(folder / fill.__name__)).write().root for fill in (demo, mixed)}


@pytest.fixture(scope="session")
def demo_store(_stores):
    """Only to be read."""
    return Store(_stores["demo"])


@pytest.fixture(scope="session")
def mixed_store(_stores):
    """Only to be read."""
    return Store(_stores["mixed"])


@pytest.fixture
def demo_copy(_stores, tmp_path):
    """The store of the demo, to be changed."""
    return Store(shutil.copytree(_stores["demo"], tmp_path / "store"))


@pytest.fixture
def make():
    """The metrics of records: `make.text(loss)`, `make.image(accuracy, loss)`."""
    return SimpleNamespace(text=text, image=image)
