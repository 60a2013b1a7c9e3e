"""What listing, tables and the report of many runs take, of one checkout or of several side by side.

    python benchmarks/large_store.py --runs 10000 --store /tmp/large [CHECKOUT ...]

It writes the store, without training, if there is none; then for each command the CPU seconds of the whole
process and its peak memory, the least of some repetitions. CPU seconds compare on a busy machine, too, though
not to the last tenth. `cold`: the index is deleted before; `warm`: it is there.
"""

import argparse
import copy
import dataclasses
import hashlib
import itertools
import json
import math
import os
import platform
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from htbench.harness.config.settings import resolve_config
from htbench.harness.paper import experiments
from htbench.harness.store import Store, layout
from htbench.harness.store.points import POINTS, REPLICATE, SEARCH
from htbench.harness.system import seal

HOME = Path(__file__).resolve().parents[1]
COMMANDS = {"table": ["table"], "report": ["report"], "ls --all": ["runs", "ls", "--all"]}
MADE = {"cold": ["index.jsonl"], "warm": []}  # state -> what is deleted for it


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT", help="(default: this one)")
    parser.add_argument("--store", type=Path, required=True, help="its folder; written if it is not there")
    parser.add_argument(
        "--runs", type=int, default=10_000, help="in a store that is written (default: 10000)"
    )
    parser.add_argument("--repeat", type=int, default=2, help="of each measurement (default: 2)")
    parser.add_argument("--command", choices=COMMANDS, action="append", help="(default: all)")
    parser.add_argument("--state", choices=MADE, action="append", help="(default: all)")
    args = parser.parse_args()
    if not args.store.exists():
        fill(args.store, args.runs)
    print(f"{_cpu()}, {os.cpu_count()} cores, Python {platform.python_version()}: {args.store}")
    for name in args.command or COMMANDS:
        for checkout in args.checkouts or [HOME]:
            words = [sys.executable, "-m", "htbench", *COMMANDS[name], "--root", str(args.store)]
            for state, seconds, memory in _measured(words, args.store, args.state or list(MADE), args.repeat):
                print(f"{name:10}{state:6}{seconds:8.1f} s{memory:8.0f} MB  {checkout}", flush=True)


def _measured(
    words: Sequence[str], store: Path, states: Sequence[str], repeat: int
) -> Iterator[tuple[str, float, float]]:
    """For each state the least CPU seconds and peak memory in MB."""
    for state in (state for state in MADE if state in states):
        found = []
        for _ in range(repeat):
            for name in (*MADE[state], "report.html", "figures"):
                path = store / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            found.append(_run(words))
        yield state, *map(min, zip(*found, strict=True))


def _run(words: Sequence[str]) -> tuple[float, float]:
    with open(os.devnull, "w") as nothing:
        child = subprocess.Popen(words, stdout=nothing, env=os.environ | {"OMP_NUM_THREADS": "1"})
        _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{' '.join(words)} ended with status {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine()
    )


# --- the store, without training and without waiting for the disk ---

STEPS = 40
FRESH = (1, 2, 3)
ENVIRONMENT = {
    "code": "0123456789ab",
    "torch": "2.13.0",
    "python": "3.11.7",
    "cpu": "Testium 1",
    "world_size": 1,
}
COST = {
    "parameters": 1e6,
    "tokens": 1e5,
    "samples": 1e4,
    "flops_per_step": 3e9,
    "optimizer_flops_per_step": 1e9,
}
COST |= {"state_bytes": 8e6, "estimated_peak_memory": 5e7}


def fill(root, runs, rates=5):
    """Write so many runs: the nano experiments, then the same workloads in other sweeps of a user."""
    folder, files, index = Path(root), {}, []
    for number, (sweep, block, template) in enumerate(itertools.islice(_runs(rates), runs)):
        key = hashlib.sha256(str(number).encode()).hexdigest()[:12]
        stage, config = template
        place = folder / "runs" / key[:2] / key
        (place / "attempts").mkdir(parents=True)
        record = seal.sealed(_record(key, config, random.Random(number)))
        text = json.dumps(record, indent=1) + "\n"
        (place / "record.json").write_text(text)
        (place / "metrics.jsonl").write_text(_curve(record))
        (place / "attempts" / "1.json").write_text('{"outcome": {"reason": "finished"}}')
        found = (place / "record.json").stat()
        row = {"size": found.st_size, "modified": found.st_mtime_ns, "record": record}
        index.append(json.dumps(row) + "\n")
        point = {"sweep": sweep, "block": block, "stage": stage, "key": key, "overrides": _overrides(config)}
        files.setdefault(sweep, []).append(json.dumps(point) + "\n")
    layout.begin(folder)
    for sweep, lines in files.items():
        (folder / "sweeps" / sweep).mkdir(parents=True)
        (folder / "sweeps" / sweep / POINTS).write_text("".join(lines))
    (folder / "index.jsonl").write_text("".join(index))
    return Store(folder)


def _runs(rates):
    """(sweep, block, (stage, config)) without end; every round is a thousand runs in new sweeps."""
    for repeat in itertools.count():
        for place, experiment in experiments.places("nano").items():
            sweep = experiments.sweep("nano", experiment) if not repeat else f"own-{repeat}-{experiment}"
            task, model = place.workload
            given = {"task": task, "model": model, "steps": STEPS, "batch_size": 16 + repeat}
            given |= {"optimizer.name": place.optimizer, "data_fingerprint": "0123456789abcdef"}
            given |= {f"optimizer.{name}": value for name, value in place.hyper.items()}
            block = f"{place.dataset} {place.model} {place.optimizer} {place.hyper}"
            plain = json.loads(json.dumps(dataclasses.asdict(resolve_config(given))))
            for exponent in range(rates):
                yield sweep, block, (SEARCH, _with(plain, 0.005 * 2**exponent, 0))
            for seed in FRESH:
                yield sweep, block, (REPLICATE, _with(plain, 0.02, seed))


def _with(plain, lr, seed):
    config = copy.deepcopy(plain)
    config["optimizer"]["lr"] = lr
    return config | {"seed": seed, "data_seed": seed}


def _overrides(config):
    names = ("task", "model", "steps", "batch_size", "seed", "data_seed", "data_fingerprint")
    hyper = {f"optimizer.{name}": value for name, value in config["optimizer"]["hyper"].items()}
    own = {"optimizer.name": config["optimizer"]["name"], "optimizer.lr": config["optimizer"]["lr"]}
    return {name: config[name] for name in names} | own | hyper


def _record(key, config, noise):
    loss = 1 + 0.1 * math.log(config["optimizer"]["lr"] / 0.02) ** 2 + abs(noise.gauss(0, 0.02))
    found = {"train_loss": loss - 0.1, "untrained_val_loss": 6.0}
    for split in ("val", "test"):
        own = {
            "loss": loss,
            "loss_biased": loss * 0.9,
            "perplexity": math.exp(loss),
            "bits_per_byte": loss / 2,
        }
        if config["task"] != "pydocs":
            own = {"loss": loss, "accuracy": math.exp(-loss), "samples": 360}
        found |= {f"{split}_{name}": value for name, value in own.items()}
    seconds = 0.01 + noise.random() / 1000
    timing = {"mean": seconds, "sd": 0.001, "steps": STEPS - 10, "warmup": 10, "cpu": seconds}
    return {
        **{"key": key, "config": config, "status": "completed", "metrics": found, "steps": STEPS},
        **{"useful_seconds": STEPS * seconds, "seconds_per_step": seconds, "peak_memory": 1, "cost": COST},
        **{"attempts": 1, "environment": ENVIRONMENT, "timing": timing},
        **{"began": "2026-01-31T12:00:00+00:00", "ended": "2026-01-31T12:01:00+00:00"},
    }


def _curve(record):
    """A curve that ends as the record says."""
    final = record["metrics"]
    rows = [{"step": n, "loss": final["train_loss"], "lr": 0.01} for n in range(1, STEPS + 1)]
    for split in ("val_", "test_"):
        rows.append({"step": STEPS} | {name: x for name, x in final.items() if name.startswith(split)})
    return "".join(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
