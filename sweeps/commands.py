"""`htbench sweep`: plan, run, status, retry, replicate, index."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness import plans, score, tasks
from harness.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, UsageError
from harness.plans import Point
from harness.record import RunRecord
from harness.store import Kind, RunState, Store, make_folder
from sweeps import spec as specs
from sweeps.plan import Planned, by_objective, replicas, search_points, write_plan
from sweeps.progress import describe
from sweeps.spec import SweepSpec

ACTIONS = {
    "plan": "show every point and its state; nothing is written",
    "run": "train whatever is missing on this machine, then the winners on fresh seeds",
    "status": "what is done, running, waiting and failed, and the best so far",
    "retry": "try failed runs again",
    "replicate": "run the winners of a finished grid on fresh seeds",
    "index": "write index, plan and Optuna studies anew from the run folders",
}


def add_sweep_arguments(parser: argparse.ArgumentParser) -> None:
    """ACTION SPEC... key=value..."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "actions:\n" + "\n".join(f"  {name:10} {text}" for name, text in ACTIONS.items())
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument(
        "words",
        nargs="+",
        metavar="SPEC | key=value",
        help="sweep files, folders or names; settings that override their base",
    )
    parser.add_argument(
        "--workers", type=int, default=None, help="runs at a time (default: by cores or GPUs)"
    )
    parser.add_argument("--json", action="store_true", help="plan and status: as JSON")


def sweep(args: argparse.Namespace) -> int:
    """Carry out one action on one or several sweeps."""
    if args.workers is not None and args.workers < 1:
        raise UsageError(f"--workers must be at least 1, not {args.workers}.")
    words = [word for word in args.words if "=" in word]
    names = [word for word in args.words if "=" not in word]
    if not names:
        raise UsageError("Name at least one sweep file, such as sweeps/demo-digits.yaml.")
    loaded = [specs.load(specs.find(name, args.root), words) for name in names]
    status: int = globals()[f"_{args.action}"](args, Store(args.root), loaded)
    return status


# --- actions ---


def _run(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    from sweeps.progress import Progress
    from sweeps.runner import Runner

    runner = Runner(store, loaded, args.workers, Progress())
    make_folder(store.root)
    runner.run()
    if runner.interrupted:
        print("htbench: stopped; the same command goes on from here.", file=sys.stderr)
        return EXIT_INTERRUPTED
    for live in runner.sweeps:
        finished = [one for one in live.planned if live.settled.get(one.point.key) is not None]
        print(f"{live.spec.name}: {len(finished)} of {len(live.planned)} points have a result")
    for key, why in runner.unfinished.items():
        print(f"  run {key} {why}", file=sys.stderr)
    if runner.unfinished:
        print(
            "  The same command goes on with unfinished runs, `htbench sweep retry` with failed ones, too.",
            file=sys.stderr,
        )
    return EXIT_RUN_FAILED if runner.unfinished else 0


def _retry(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    keys = [one.point.key for spec in loaded for one in _everything(store, spec)]
    forgiven = sum(store.forgive(key) for key in keys)
    print(f"{forgiven} failed runs are tried again", file=sys.stderr)
    return _run(args, store, loaded)


def _replicate(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    for spec in loaded:
        if not spec.fresh_seeds:
            raise UsageError(
                f"The sweep '{spec.name}' asks for no replicas; add `replicate: {{seeds: 3}}` to it."
            )
        open_points = [one for one in search_points(spec) if not _settled(store.state(one.point.key))]
        if open_points:
            raise UsageError(
                f"The sweep '{spec.name}' has {len(open_points)} points without a result yet, so its winners "
                f"are not known; `htbench sweep run` finishes them first."
            )
    return _run(args, store, loaded)


def _index(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    from sweeps import study

    make_folder(store.root)
    print(f"index.jsonl: {store.rebuild_index()} records")
    for spec in loaded:
        planned = _everything(store, spec)
        write_plan(store.root, spec, planned)
        print(f"{spec.name}: {len(planned)} points")
        for path in study.refresh(store, spec, planned, rebuild=True):
            print(f"  optuna-dashboard {path}")
    return 0


def _plan(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    rows = []
    for spec in loaded:
        planned = _everything(store, spec)
        states = _states(store, [one.point for one in planned])
        rows += [_plan_row(one, states[one.point.key]) for one in planned]
        if not args.json:
            _print_plan(spec, planned, states)
    if args.json:
        print(json.dumps(rows, indent=1))
    return 0


def _status(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    report = []
    for spec in loaded:
        points = _points(args, store, spec)
        report += _status_rows(spec, points, _states(store, points))
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        _print_status(report)
    return 0


# --- what the actions share ---


def _points(args: argparse.Namespace, store: Store, spec: SweepSpec) -> list[Point]:
    """The points as last planned, which is quick; planned anew if file or command line say otherwise."""
    stored = plans.sweep_folder(store.root, spec.name) / "spec.yaml"
    overridden = any("=" in word for word in args.words)
    if not overridden and stored.exists() and stored.read_bytes() == spec.text.encode():
        return plans.read_points(store.root, spec.name)
    return [one.point for one in _everything(store, spec)]


def _settled(state: RunState) -> bool:
    return state.kind in (Kind.FINISHED, Kind.FAILED)


def _states(store: Store, points: Sequence[Point]) -> dict[str, RunState]:
    records = store.records([point.key for point in points])
    return {
        p.key: RunState(Kind.FINISHED, record=records[p.key]) if p.key in records else store.state(p.key)
        for p in points
    }


def _everything(store: Store, spec: SweepSpec) -> list[Planned]:
    """The grid, and the replicas of every objective whose grid is settled."""
    planned = search_points(spec)
    states = _states(store, [one.point for one in planned])
    records = {key: state.record for key, state in states.items() if state.record is not None}
    extra: list[Planned] = []
    for group in by_objective(spec, planned):
        if all(_settled(states[one.point.key]) for one in group):
            extra += replicas(spec, group, records)
    return planned + extra


def _plan_row(one: Planned, state: RunState) -> dict[str, Any]:
    point = one.point
    return {
        "sweep": point.sweep,
        "block": point.block,
        "stage": point.stage,
        "key": point.key,
        "state": _word(state),
        "overrides": point.overrides,
    }


def _word(state: RunState) -> str:
    return state.record.status if state.record is not None else state.kind.value


def _print_plan(spec: SweepSpec, planned: Sequence[Planned], states: dict[str, RunState]) -> None:
    for one in planned:
        print(
            f"{one.point.key}  {_word(states[one.point.key]):9}  {one.point.stage:9}  {describe(one.point)}"
        )
    counts = Counter(_word(states[one.point.key]) for one in planned)
    left = [one for one in planned if not _settled(states[one.point.key])]
    print(
        f"{spec.name}: {len(planned)} points, "
        + ", ".join(f"{n} {word}" for word, n in sorted(counts.items()))
    )
    print(
        f"{len(left)} to run{_estimate(left, states)}; "
        f"replicas of winners follow: {spec.fresh_seeds} per objective"
    )


def _estimate(left: Sequence[Planned], states: dict[str, RunState]) -> str:
    """Hours of one worker, by the finished runs of the same task, model and optimizer."""

    def kind(config: dict[str, Any]) -> tuple[str, str, str]:
        return config["task"], config["model"], config["optimizer"]["name"]

    seen: dict[tuple[str, str, str], list[float]] = {}
    for state in states.values():
        if state.record is not None and state.record.seconds_per_step is not None:
            seen.setdefault(kind(state.record.config), []).append(state.record.seconds_per_step)
    total = 0.0
    for one in left:
        config = one.config
        times = seen.get((config.task, config.model, config.optimizer.name))
        if times is None or config.steps is None:
            return ""
        total += config.steps * sum(times) / len(times)
    return f", about {total / 3600:.2g} hours of one worker by the finished runs" if left else ""


def _status_rows(
    spec: SweepSpec, points: Sequence[Point], states: dict[str, RunState]
) -> list[dict[str, Any]]:
    rows = []
    for block in dict.fromkeys(point.block for point in points):
        own = [point for point in points if point.block == block]
        counts = Counter(_word(states[point.key]) for point in own)
        failures = [
            {"key": p.key, "point": describe(p), "reason": s.reason, "message": s.message}
            for p in own
            if (s := states[p.key]).kind is Kind.FAILED
        ]
        rows.append(
            {"sweep": spec.name, "block": block, "points": len(own), **counts, "failures": failures}
            | {"best": _best(own, states)}
        )
    return rows


def _best(points: Sequence[Point], states: dict[str, RunState]) -> str:
    grid = {point.key: point for point in points if point.stage == plans.SEARCH}
    records = {key: states[key].record for key in grid}
    best, _ = score.winner({key: score.score(record) if record else None for key, record in records.items()})
    record = records[best] if best is not None else None
    return f"{describe(grid[record.key])}: {_figure(record)}" if record is not None else ""


def _figure(record: RunRecord) -> str:
    metric = tasks.spec(record.config["task"]).metric
    return f"val {metric} {record.metrics[f'val_{metric}']:.4g}"


_COLUMNS = ("completed", "diverged", "pruned", "running", "waiting", "failed")


def _print_status(report: Sequence[dict[str, Any]]) -> None:
    print(
        f"{'sweep':16} {'block':12} {'points':>6} "
        + " ".join(f"{name:>9}" for name in _COLUMNS)
        + "  best so far"
    )
    for row in report:
        cells = " ".join(f"{row.get(name, 0) or '':>9}" for name in _COLUMNS)
        print(f"{row['sweep']:16} {row['block']:12} {row['points']:>6} {cells}  {row['best'] or '-'}")
    for row in report:
        for failure in row["failures"]:
            print(f"failed ({failure['reason']}): {failure['key']} {failure['point']}: {failure['message']}")
