"""Stores of every kind for `tests/results/test_golden_tables.py`: real plans, results that follow a formula.

Nothing is trained. A result is a pure function of the settings that the plan gives, with a hash in place of
noise, so the same plan has the same results on every machine. Keys are hashes of these settings, too: neither
new keys nor an order by keys can change a table.

`python -m tests.helpers.golden_stores --write` writes the golden files anew; `--write-words` only the
sentences in them, and refuses if a value differs.
"""

import argparse
import dataclasses
import hashlib
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

# All that the stores need of the packages, so that a moved module is one line here. The writers of plans and
# records are theirs, as their files have digests.
from htbench.harness.store.layout import begin
from htbench.harness.store.owner import Owner
from htbench.harness.store.points import DROPPED, SEARCH, Point, sweep_folder, write_points
from htbench.harness.store.record import RunRecord
from htbench.harness.system.seal import sealed
from htbench.sweeps.plan.planned import Planned, by_objective, plan_point, search_points
from htbench.sweeps.plan.replicas import replicas
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.spec.sweep_file import load
from tests.helpers import golden_snapshot, published_store, records, small_languages
from tests.helpers.records import write_rows

REVISIONS = "htbench.harness.config.revisions.current"  # which code makes the numbers

SWEEPS = Path(__file__).parents[2] / "sweeps"
FINGERPRINT = "0123456789abcdef"  # that of real data depends on the machine
HERE = {"code": "golden", "torch": "2.9.0", "python": "3.11.7", "cpu": "Testium 1", "world_size": 1}
BEST_RATE = {"adam": 0.006, "adamw": 0.008, "sgdm": 0.3}  # of others 0.06
LEVEL = {"muon": 0.12, "htmuon": 0.03, "normuon": 0.08, "htmuon_normuon": 0.0, "sgdm": 0.4, "adamw": 0.2}
LAYERS = {
    **{"layers.0.q_proj": (0, "q"), "layers.0.up_proj": (0, "up"), "layers.1.q_proj": (1, "q")},
    **{"layers.1.up_proj": (1, "up"), "layers.2.down_proj": (2, "down")},
}

SEARCHES = """
name: golden-search
base: {task: pydocs, model: llama-nano, steps: 60, batch_size: 16, evaluation.every: 10}
blocks:
  - name: adamw
    set: {optimizer.name: adamw}
    space:
      optimizer.lr: {low: 0.001, high: 0.1, log: true}
      optimizer.weight_decay: {low: 0.0, high: 0.2}
  - name: muon
    set: {optimizer.name: muon}
    space: {optimizer.lr: {low: 0.005, high: 0.5, log: true}, optimizer.momentum: [0.8, 0.9, 0.95]}
  - name: htmuon
    set: {optimizer.name: htmuon}
    space: {optimizer.lr: {low: 0.005, high: 0.5, log: true}, optimizer.p: {low: 0.05, high: 0.25}}
search: {mode: tpe, trials: 12, pruner: {asha: {min_resource: 10}}}
replicate: {seeds: 3}
"""
RANDOM = """
name: golden-random
base: {task: digits, batch_size: 64, steps: 40}
blocks:
  - name: sgdm
    set: {optimizer.name: sgdm}
    space: {model: [resnet-nano, resnet-nano-50], optimizer.lr: {low: 0.01, high: 1, log: true}}
  - name: muon
    set: {optimizer.name: muon}
    space: {model: [resnet-nano, resnet-nano-50], optimizer.lr: {low: 0.01, high: 1, log: true}}
search: {mode: random, trials: 6}
replicate: {seeds: 2}
"""


# --- results without a training ---


def unit(*words: object) -> float:
    """A number in [0, 1) that only these words decide."""
    return int(hashlib.sha256(repr(words).encode()).hexdigest()[:12], 16) / 16**12


def noise(*words: object) -> float:
    """Nearly Gaussian, with a standard deviation of 1."""
    return sum(unit(index, *words) for index in range(12)) - 6


def apart(settings: Mapping[str, object]) -> list[tuple[str, object]]:
    """The settings but for the seeds, and the device, which no key has, in an order of their own."""
    return sorted(
        (name, value) for name, value in settings.items() if name not in ("seed", "data_seed", "device")
    )


def loss_of(settings: Mapping[str, object]) -> float:
    """The validation loss of a run: how far its rate is from the best one decides most of it."""
    rule, seed = str(settings["optimizer.name"]), settings.get("seed", 0)
    octaves = math.log2(float(settings["optimizer.lr"]) / BEST_RATE.get(rule, 0.06))
    p = float(settings.get("optimizer.p", 0.125))
    excess = LEVEL.get(rule, 0.15) + 0.05 * octaves**2 + 0.4 * abs(p - 0.125)
    return round(excess + 0.01 * noise("setting", apart(settings)) + 0.02 * noise(seed, apart(settings)), 6)


def metrics_of(settings: Mapping[str, object]) -> dict[str, float]:
    """The final metrics of a text or an image run."""
    excess, found = loss_of(settings), {}
    text = settings["task"] == "pydocs"
    base = 4.0 if text else 0.3
    found["train_loss"] = round(base + excess - 0.1, 6)
    found["untrained_val_loss"] = 6.93 if text else 2.31
    for split, shift in (("val", 0.0), ("test", 0.02 + 0.005 * noise("test", settings.get("seed")))):
        loss = round(base + excess + shift, 6)
        own = {"loss": loss}
        if text:
            own |= {"loss_biased": round(0.9 * loss, 6), "perplexity": round(math.exp(loss), 6)}
            own |= {"bits_per_byte": round(loss / 2, 6)}
        else:
            own |= {"accuracy": round(360 * (0.97 - 0.2 * (excess + shift))) / 360, "samples": 360}
        found |= {f"{split}_{name}": value for name, value in own.items()}
    return found


def record_of(one: Planned, status: str = "completed", **changed: object) -> RunRecord:
    """The record of a run that has ended in some way."""
    settings, config = one.point.overrides, one.config
    steps, rule = config.steps or 60, config.optimizer.name
    slow = 0.05 if rule.startswith("ht") else 0.02
    seconds = round(slow * (1 + 0.03 * unit("seconds", apart(settings), settings.get("seed"))), 7)
    timing = {"mean": seconds, "sd": 0.001, "steps": steps - 10, "warmup": 10, "cpu": round(1.1 * seconds, 7)}
    size = 1 + len(config.model)
    cost = {"parameters": 1e5 * size, "tokens": steps * 1024.0, "samples": steps * 16.0}
    cost |= {"flops_per_step": 3e8 * size, "state_bytes": 8e5 * size, "estimated_peak_memory": 5e6 * size}
    cost |= {"optimizer_flops_per_step": 1e8 * size * (3 if rule.startswith("ht") else 1)}
    metrics = metrics_of(settings) if status == "completed" else {}
    made = records.record_of(
        one,
        status=status,
        metrics=metrics,
        steps=steps,
        useful_seconds=round(steps * seconds, 6),
        seconds_per_step=seconds,
        peak_memory=1_000_000 * size,
        cost=cost,
        environment=HERE,
        timing=timing,
        began="2026-01-31T12:00:00+00:00",
        ended="2026-01-31T12:01:00+00:00",
    )
    return dataclasses.replace(made, **changed)


def curve_of(record: RunRecord, every_step: bool) -> list[dict[str, float]]:
    """A falling loss and evaluations that end as the record says; of all steps or the evaluations alone."""
    steps, final = record.steps, record.metrics
    level = final.get("train_loss", 3.0)
    rows = []
    for step in range(1, steps + 1) if every_step else ():
        wave = 0.05 * math.sin(step * 0.7 + 10 * level) if step <= steps - max(1, steps // 10) else 0.0
        rows.append(
            {"step": step, "loss": round(level + 2 * math.exp(-8 * step / steps) + wave, 6), "lr": 0.01}
        )
    if every_step:  # the record has the mean over the last tenth
        for row in rows[steps - max(1, steps // 10) :]:
            row["loss"] = level
    for tenth in range(1, 10) if final else ():
        left = 1.5 * (1 - tenth / 10) ** 2
        row = {"step": steps * tenth // 10, "val_loss": round(final["val_loss"] + left, 6)}
        if "val_perplexity" in final:
            row |= {"val_perplexity": round(math.exp(row["val_loss"]), 6)}
            row |= {"val_loss_biased": round(0.9 * row["val_loss"], 6)}
        else:
            row["val_accuracy"] = round(final["val_accuracy"] * (1 - left / 4), 6)
        rows.append(row)
    for split in ("val_", "test_"):
        own = {name: value for name, value in final.items() if name.startswith(split)}
        rows += [{"step": steps, **own}] if own else []
    return sorted(rows, key=lambda row: row["step"])


def spectra_of(record: RunRecord) -> list[dict[str, object]]:
    """The spectra of the final weights, and of the updates at two steps."""
    rule, seed, rows = record.config["optimizer"]["name"], record.config["seed"], []
    for name, (block, kind) in LAYERS.items():
        words = (name, rule, seed, record.config["model"])
        for step in (1, record.steps):
            update = [round(1 - 0.1 * rank * unit(rank, step, *words), 6) for rank in range(6)]
            rows.append(
                {"step": step, "layer": name, "rows": 6, "cols": 6, "update": update, "momentum": update}
            )
        alpha = round(2 + 0.5 * unit("alpha", *words) + 0.1 * block, 6)
        row = {"step": record.steps, "layer": name, "block": block, "kind": kind, "alpha": alpha}
        row |= {"alpha_random": 2.1, "sigma_max": round(3 + unit("norm", *words), 6), "method": "hill_mid"}
        row |= {"fro": round(9 + unit("fro", *words), 6)}
        rows.append(row | {"flags": ["small_n"] if kind == "down" and unit(*words) < 0.3 else []})
    return rows


# --- runs in a store ---


class Filled:
    """A store to be filled run by run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        begin(root)

    def folder(self, key: str) -> Path:
        """The folder of a run, made."""
        path = self.root / "runs" / key[:2] / key
        (path / "attempts").mkdir(parents=True, exist_ok=True)
        return path

    def finish(self, record: RunRecord, *, full: bool = False, curve: bool = True) -> RunRecord:
        """Write record and curve; `full`: with the loss of each step and the spectra."""
        folder = self.folder(record.key)
        (folder / "record.json").write_text(json.dumps(record.to_json()))
        if curve:
            write_rows(folder / "metrics.jsonl", curve_of(record, full))
        if full and record.status == "completed":
            write_rows(folder / "spectra.jsonl", spectra_of(record))
        return record

    def attempt(self, key: str, outcome: Mapping[str, str] | None) -> None:
        """An attempt without a record: it failed, or without an outcome lives in this process."""
        ended = outcome and 1.0
        content = {"owner": Owner.current().to_json(), "began": 0, "ended": ended, "outcome": outcome}
        (self.folder(key) / "attempts" / "1.json").write_text(json.dumps(content))

    def end(self, one: Planned, state: str, *, full: bool = False, study: str = "") -> RunRecord | None:
        """Let a run come to a state; returns the record of one that ended."""
        key = one.point.key
        if (self.root / "runs" / key[:2] / key).exists():  # another sweep wants it as well
            state = "there" if not (self.folder(key) / "record.json").exists() else state
        if state == "completed":
            return self.finish(record_of(one), full=full)
        if state == "elsewhere":  # another machine and another torch: a mixture
            where = HERE | {"code": "other", "torch": "2.8.0", "cpu": "Testium 2", "world_size": 2}
            return self.finish(record_of(one, environment=where), full=full)
        if state == "diverged":
            step = 7 + int(20 * unit("step", apart(one.point.overrides)))
            why = {"kind": "loss_not_finite"}
            return self.finish(record_of(one, "diverged", steps=step, divergence=why), curve=False)
        if state == "pruned":
            loss = {"val_loss": 4.5 + loss_of(one.point.overrides)}
            why = record_of(one, "pruned", steps=20, metrics=loss)
            return self.finish(dataclasses.replace(why, pruned_by=[study]), curve=False)
        if state in ("oom", "timeout", "killed", "error"):
            self.attempt(key, {"reason": state, "message": "a message"})
        elif state == "running":
            self.attempt(key, None)
        elif state == "edited":  # by hand, so that its digest is that of another record
            record = self.finish(record_of(one))
            better = record.metrics | {"val_loss": record.metrics["val_loss"] - 1}
            text = json.dumps(record.to_json() | {"metrics": better})
            (self.folder(key) / "record.json").write_text(text)
        elif state == "cut":
            self.finish(record_of(one))
            (self.folder(key) / "record.json").write_text('{"key": ')
        elif state == "lost":
            self.finish(record_of(one))
            (self.folder(key) / "record.json").unlink()
        return None

    def plan(self, name: str, points: list[Point]) -> None:
        """Write the plan of a sweep."""
        sweep_folder(self.root, name).mkdir(parents=True, exist_ok=True)
        write_points(self.root, name, points)


def renamed(one: Planned) -> Planned:
    """The point under a key that its given settings decide, whatever makes keys."""
    given = {name: value for name, value in one.point.overrides.items() if name != "device"}
    text = json.dumps(given, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    return dataclasses.replace(one, point=dataclasses.replace(one.point, key=key))


State = Callable[[Planned], str]

LADDER = """
name: golden-ladder-{model}
base: {{task: pydocs, model: {model}, batch_size: 16, schedule.name: wsd, schedule.warmup: 10}}
blocks:
  - name: adamw
    set: {{optimizer.name: adamw}}
    space: {{optimizer.lr: [0.004, 0.008, 0.016], steps: [100, 200, 400]}}
  - name: muon
    set: {{optimizer.name: muon}}
    space: {{optimizer.lr: [0.03, 0.06, 0.12], steps: [200]}}
replicate: {{seeds: 3}}
"""
PARAMETERS = {"llama-nano-60m": 45e3, "llama-nano-135m": 114e3, "llama-nano-350m": 238e3}


def grid(filled: Filled, path: Path, state: State) -> list[Point]:
    """Plan a sweep file and end its runs; objectives without an open run get replicas. Returns the points."""
    spec = load(path, [f"data_fingerprint={FINGERPRINT}"])
    planned = [renamed(one) for one in search_points(spec)]
    points = [one.point for one in planned]
    for group in by_objective(spec, planned):
        states = {one.point.key: state(one) for one in group}
        ended = {one.point.key: filled.end(one, states[one.point.key]) for one in group}
        if {"waiting", "running"} & set(states.values()):
            continue
        for one in map(renamed, replicas(spec, group, {key: one for key, one in ended.items() if one})):
            points.append(one.point)
            filled.end(one, state(one), full=True)
    filled.plan(spec.name, points)
    return points


def usual(one: Planned) -> str:
    """What becomes of a run: nearly always a result, now and then all else that there is."""
    settings = one.point.overrides
    chance = unit("state", apart(settings), settings.get("seed"))
    if one.point.stage != SEARCH:
        rare = {"waiting": 0.02, "diverged": 0.03, "oom": 0.04, "edited": 0.05, "elsewhere": 0.08}
    else:
        rare = {
            "waiting": 0.004,
            "running": 0.007,
            "timeout": 0.012,
            "cut": 0.016,
            "lost": 0.02,
            "edited": 0.03,
        }
        rare |= {"diverged": 0.06} if float(settings["optimizer.lr"]) < 0.3 else {"diverged": 0.3}
    return next((state for state, bound in rare.items() if chance < bound), "completed")


# --- the stores ---


def demo(root: Path) -> None:
    """The sweeps of `htbench demo`, with every state that there is, a dropped point and runs of no plan."""
    filled = Filled(root)
    special = {
        ("adamw", 0.05): "oom",
        ("sgdm", 0.8): "diverged",
        ("muon", 0.2): "waiting",
        ("htmuon", 0.2): "edited",
        ("sgdm", 1.0): "diverged",
    }

    def state(one: Planned) -> str:
        settings = one.point.overrides
        place = (one.point.block, settings["optimizer.lr"])
        if one.point.stage == SEARCH and place in special:
            alike = [special[place], "running", "cut"] if place[0] == "muon" else [special[place]] * 3
            return alike[int(3 * unit(place, apart(settings)))]
        if place[0] == "adamw" and settings.get("seed") == 1001:
            return "elsewhere"
        return usual(one)

    grid(filled, SWEEPS / "demo" / "demo-pydocs.yaml", state)
    points = grid(filled, SWEEPS / "demo" / "demo-digits.yaml", state)
    spec = load(SWEEPS / "demo" / "demo-digits.yaml", [f"data_fingerprint={FINGERPRINT}"])
    for name, stage in (("dropped", DROPPED), ("", "")):
        given = spec.base | {"optimizer.name": "sgdm", "optimizer.lr": 0.1, "seed": 5 + len(name)}
        one = renamed(plan_point(spec, "sgdm", SEARCH, given))
        filled.end(one, "completed", full=True)
        points += [dataclasses.replace(one.point, stage=stage)] if stage else []
    filled.plan("demo-digits", points)


def nano(root: Path) -> None:
    """The paper's experiments in miniature, those of language models, too."""
    filled = Filled(root)
    plans = [*(SWEEPS / "nano").glob("*.yaml"), *(small_languages.PLANS / "nano").glob("*.yaml")]
    for path in sorted(plans, key=lambda path: path.name):
        grid(filled, path, usual)


def ladder(root: Path) -> None:
    """Three sizes at 10, 20 and 40 tokens per parameter, where Muon is worth 1.4 times the tokens."""
    filled = Filled(root)
    for model in PARAMETERS:
        path = root.parent / f"{root.name}-{model}.yaml"
        path.write_text(LADDER.format(model=model))
        spec = load(path, [f"data_fingerprint={FINGERPRINT}"])
        planned = [renamed(one) for one in search_points(spec)]
        points = [one.point for one in planned]
        for group in by_objective(spec, planned):
            ended = {one.point.key: filled.finish(_rung(one)) for one in group}
            for one in map(renamed, replicas(spec, group, ended)):
                points.append(one.point)
                filled.finish(_rung(one))
        filled.plan(spec.name, points)


def _rung(one: Planned) -> RunRecord:
    """A run on AdamW's law of its size; the floors fall with the operations of a run."""
    settings, steps, n = one.point.overrides, one.config.steps, PARAMETERS[one.config.model]
    rule, tokens, flops = str(settings["optimizer.name"]), n * steps / 10, 120 * n * n
    floor = 1.2 + 3 * (flops / 1e12) ** -0.2 - 900 * (20 * n) ** -0.55
    loss = floor + 900 * (tokens * (1.4 if rule == "muon" else 1)) ** -0.55
    loss += 0.05 * math.log2(float(settings["optimizer.lr"]) / BEST_RATE.get(rule, 0.06)) ** 2
    loss += 0.004 * noise("rung", settings.get("seed"), apart(settings))
    metrics = {"train_loss": loss, "untrained_val_loss": 6.93}
    for split in ("val", "test"):
        metrics |= {f"{split}_loss": loss, f"{split}_loss_biased": loss, f"{split}_bits_per_byte": loss / 2}
        metrics[f"{split}_perplexity"] = math.exp(loss)
    metrics = {name: round(value, 6) for name, value in metrics.items()}
    step_flops = {"flops_per_step": 0.4 * n * n, "optimizer_flops_per_step": 0.2 * n * n}
    made = record_of(one)
    return dataclasses.replace(
        made, metrics=metrics, cost=made.cost | step_flops | {"parameters": n, "tokens": tokens}
    )


def search(root: Path) -> None:
    """Searches with pruned, failed and diverged trials, and slots that nobody has filled yet."""
    filled = Filled(root)
    for name, text in (("tpe", SEARCHES), ("random", RANDOM)):
        path = root.parent / f"{root.name}-{name}.yaml"
        path.write_text(text)
        _searched(filled, path)


def _searched(filled: Filled, path: Path) -> None:
    spec = load(path, [f"data_fingerprint={FINGERPRINT}"])
    slots = search_points(spec)
    write_plan(filled.root, spec, slots)
    points = [one.point for one in slots]
    for group in by_objective(spec, slots):
        drawn = [_drawn(filled, spec, one) for one in group]
        states = [_state_of_trial(one, number) for number, one in enumerate(drawn)]
        ended = [
            None if state == "empty" else filled.end(one, state, study=one.point.study)
            for one, state in zip(drawn, states, strict=True)
        ]
        if {"empty", "waiting", "running"} & set(states):
            continue
        for one in map(renamed, replicas(spec, drawn, {record.key: record for record in ended if record})):
            points.append(one.point)
            filled.end(one, usual(one), full=True)
    write_points(filled.root, spec.name, points)


def _drawn(filled: Filled, spec: object, one: Planned) -> Planned:
    """A slot with what a trial draws; the file of an empty one is not written."""
    point, number = one.point, int(one.point.slot.rpartition("/")[2])
    folder = sweep_folder(filled.root, point.sweep) / "slots" / point.study
    axes = json.loads((folder / "study.json").read_text())["axes"]
    drawn = {}
    for name, axis in axes.items():
        part = unit("draw", name, point.block, str(point.overrides.get("model")), number)
        if "choices" in axis:
            drawn[name] = axis["choices"][int(part * len(axis["choices"]))]
        elif axis["log"]:
            drawn[name] = float(f"{axis['low'] * (axis['high'] / axis['low']) ** part:.6g}")
        else:
            drawn[name] = float(f"{axis['low'] + (axis['high'] - axis['low']) * part:.6g}")
    made = renamed(plan_point(spec, point.block, SEARCH, point.overrides | drawn))
    made = dataclasses.replace(made, point=dataclasses.replace(made.point, slot=point.slot))
    if _state_of_trial(made, number) != "empty":
        content = {"study": point.study, "trial": number, "key": made.point.key}
        content |= {"overrides": made.point.overrides}
        (folder / f"{number}.json").write_text(json.dumps(sealed(content)))
    return made


def _state_of_trial(one: Planned, number: int) -> str:
    """By the trial's number. Of one block a trial is still to come, and another is at work."""
    if one.point.sweep == "golden-random":
        return {2: "diverged", 4: "killed"}.get(number, "completed")
    if one.point.block == "muon":
        return {3: "pruned", 6: "waiting", 8: "running", 10: "empty", 11: "empty"}.get(number, "completed")
    return {1: "pruned", 4: "pruned", 5: "diverged", 7: "error", 9: "pruned"}.get(number, "completed")


@dataclasses.dataclass(frozen=True)
class Kind:
    """How a store is made, and what is asked of it: see `golden_snapshot.take`."""

    make: Callable[[Path], object]
    source: str = "both"
    ledger: bool = True


STORES = {
    "demo": Kind(demo),
    "nano": Kind(nano),
    "search": Kind(search, ledger=False),
    "ladder": Kind(ladder, ledger=False),
    "paper": Kind(published_store.fill),
    "published": Kind(Path.mkdir, "published", ledger=False),  # an empty store
}


@contextmanager
def _of_old() -> Iterator[None]:
    """What the code is may change neither plans nor optimizers' names; `nano` has language models, too."""
    with mock.patch(REVISIONS, lambda *_: {}), small_languages.small_languages():
        yield


@_of_old()
def filled(name: str, folder: Path) -> Path:
    """Make the store of this name in a folder; its root."""
    STORES[name].make(folder / "store")
    return folder / "store"


@_of_old()
def snapshot(name: str, root: Path) -> golden_snapshot.Snapshot:
    """What the commands say of a store that was made under this name."""
    return golden_snapshot.take(root, STORES[name].source, STORES[name].ledger)


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write all anew")
    what.add_argument("--write-words", action="store_true", help="write the sentences, if all values agree")
    args = parser.parse_args()
    for name in STORES:
        with tempfile.TemporaryDirectory() as folder:
            found = snapshot(name, filled(name, Path(folder)))
        if args.write_words and found.values != golden_snapshot.read(name).values:
            print(f"{name}: values differ, so nothing is written")
            return 1
        golden_snapshot.write(name, found)
        print(f"{name}: {len(found.values)} lines of values, {len(found.words)} of sentences")
    return 0


if __name__ == "__main__":
    raise SystemExit(_main())
