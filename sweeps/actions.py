"""The actions of `htbench sweep`: each hands on to the module that does it, and returns the exit status."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from harness.cost import gpus
from harness.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, UsageError, nearest
from harness.show.emit import emit
from harness.show.numbers import counted
from harness.show.terminal import terminal_width
from harness.store import Store
from harness.store.check import faults
from harness.store.points import REPLICATE, Point, ever_planned
from harness.system import slurm, streams
from harness.system.folders import make_folder
from harness.system.machine import visible_gpus
from sweeps.plan.planned import Planned, filled, search_points
from sweeps.plan.replicas import everything
from sweeps.plan.start import check_start
from sweeps.plan.states import settled, state, states
from sweeps.plan.stored import refuse_losses, stored, write_plan
from sweeps.spec.sweep import SweepSpec

if TYPE_CHECKING:
    from sweeps.screens.plan import Preview


def run(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Train what is missing, on this machine."""
    from sweeps.run.runner import Runner

    _check_plans(args, store, loaded)
    runner = Runner(store, loaded, args.workers, quiet=args.quiet, replace=args.replace)
    for live in runner.sweeps:
        check_start(live.spec, _unsettled(store, live.search), store.root, action="run")
    make_folder(store.root)
    runner.run()
    if runner.interrupted:
        print("htbench: stopped; the same command goes on from here.", file=sys.stderr)
        return EXIT_INTERRUPTED
    for live in runner.sweeps:
        finished = [one for one in live.planned if live.settled.get(one.point.id) is not None]
        print(f"{live.spec.name}: {len(finished)} of {len(live.planned)} points have a result")
    for name, why in runner.unfinished.items():
        print(f"  run {name} {why}", file=sys.stderr)
    if runner.unfinished:
        print(
            "  The same command goes on with unfinished runs, `htbench sweep retry` with failed ones, too.",
            file=sys.stderr,
        )
    return EXIT_RUN_FAILED if runner.unfinished else 0


def _check_plans(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> None:
    """Raise UsageError before anything is written if a sweep would drop stored points unasked."""
    for spec in loaded:
        if not args.replace and store.root.is_dir():
            refuse_losses(store.root, spec, search_points(spec))


def _unsettled(store: Store, planned: Sequence[Planned]) -> list[Planned]:
    """Those that need a machine: the rest is looked up, also where it could not be trained."""
    if not store.root.is_dir():
        return list(planned)
    found = states(store, [one.point for one in filled(store.root, planned)])
    return [one for one in planned if not settled(found[one.point.id])]


def submit(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Hand what is missing to SLURM."""
    from sweeps.cluster import submit as submission
    from sweeps.studies import refresh

    loaded = _with_block(args.block, loaded, [[block.name for block in spec.blocks] for spec in loaded])
    for spec in loaded:
        submission.check(store.root, spec)
    if args.dry_run:
        args.sbatch = True  # this parser leaves all other flags of `plan` at None
        return plan(args, store, loaded)
    _check_plans(args, store, loaded)
    plans = [(spec, everything(store, spec)) for spec in loaded]
    for spec, planned in plans:  # all of them before the first is submitted
        check_start(spec, planned, store.root, action="submit")
    wishes = submission.Wishes(args.block or "", args.retry, args.replace, args.exclude_failing)
    for spec, planned in plans:
        report = submission.submit(store, spec, planned, wishes)
        print(*report.notes(spec, len(wishes.of_block(planned)), args.quiet), sep="\n")
        refresh.refresh(store, spec, planned)
    return 0


def cancel(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Take jobs out of SLURM's queue."""
    from sweeps.cluster import queue

    slurm.require("scancel")  # without it "0 jobs cancelled" would look like SLURM's answer
    if args.block is None:
        for spec in loaded:
            print(queue.cancel(store.root, spec.name))
        return 0
    # The plan in the store may have blocks and points that the file has no more.
    planned = [[*_points(store, spec), *ever_planned(store.root, spec.name)] for spec in loaded]
    blocks = [{point.block for point in points} for points in planned]
    wanted = {point.id for points in planned for point in points if point.block == args.block}
    others = {point.id for points in planned for point in points if point.block != args.block}
    for spec in _with_block(args.block, loaded, blocks):
        print(queue.cancel(store.root, spec.name, wanted, others))
    return 0


def _with_block(
    name: str | None, loaded: Sequence[SweepSpec], blocks: Sequence[Collection[str]]
) -> list[SweepSpec]:
    """The sweeps that have a block of this name, by the blocks of each; all sweeps if there is no name.

    Raises:
        UsageError: none has it.
    """
    found = [spec for spec, known in zip(loaded, blocks, strict=True) if name is None or name in known]
    if not found and name is not None:
        raise UsageError(f"Unknown block '{name}'; {nearest(name, set().union(*blocks))}")
    return found


def retry(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Like `run`, but failed runs are tried again, too."""
    _check_plans(args, store, loaded)
    keys = [one.point.key for spec in loaded for one in everything(store, spec) if one.point.key]
    tried_again = sum(store.reset_failure(key) for key in keys)
    if not args.quiet:
        print(f"htbench: failed runs that are tried again: {tried_again}", file=sys.stderr)
    return run(args, store, loaded)


def replicate(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Run the winners on fresh seeds; UsageError if they are not known yet."""
    _check_plans(args, store, loaded)
    for spec in loaded:
        if not spec.fresh_seeds:
            raise UsageError(
                f"The sweep '{spec.name}' asks for no replicas; add `replicate: {{seeds: 3}}` to it."
            )
        planned = filled(store.root, search_points(spec))
        open_points = [one for one in planned if not settled(state(store, one.point))]
        if open_points:
            raise UsageError(
                f"The sweep '{spec.name}' has {len(open_points)} points without a result yet, so its winners "
                f"are not known; `htbench sweep run` finishes them first."
            )
    return run(args, store, loaded)


def index(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Write index, plan and studies anew."""
    from sweeps.studies import refresh

    _check_plans(args, store, loaded)
    make_folder(store.root)
    print(f"index.jsonl: {counted(store.rebuild_index(), 'record')}")
    for key, what in faults(store).items():
        print(f"htbench: run {key}: {what}", file=sys.stderr)
    for spec in loaded:
        planned = everything(store, spec)
        replicated = [one for one in planned if one.point.stage == REPLICATE]
        write_plan(store.root, spec, search_points(spec) + replicated, replace=args.replace)
        print(f"{spec.name}: {counted(len(planned), 'point')}")
        for place in refresh.refresh(store, spec, planned, rebuild=True):
            print(f"  optuna-dashboard {place}")
    return 0


def previews(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> Iterator[Preview]:
    """What is left to run of each sweep, and what it takes."""
    from sweeps.screens import plan as screen
    from sweeps.screens.cost_card import Costs
    from sweeps.screens.estimates import Prices

    costs = Costs(store, not args.no_measure)
    named = gpus.named(_gpus(args, loaded), gpus.known(store.root, args.gpus))
    prices = Prices(store, named, simulate=bool(named) or not args.no_measure)
    for spec in loaded:
        yield screen.preview(store, spec, costs, prices)


def plan(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Show what is left to run and what it takes."""
    from sweeps.cluster import queue, submit
    from sweeps.screens import plan as screen

    if args.test_only:
        submit.max_array_size()  # raises SlurmError; a dry run alone needs no SLURM
    views = list(previews(args, store, loaded))
    for view in views:
        if args.sbatch or args.test_only:
            # The parser of `plan` has none of these flags.
            wishes = submit.Wishes(args.block or "", False, bool(args.replace), bool(args.exclude_failing))
            view.arrays += submit.scripts(store, view.spec, view.planned, wishes)
        if args.test_only:
            view.answers += submit.ask_about(view.spec.name, view.arrays)
    emit(screen.report(views, with_arrays=args.sbatch, with_points=args.points), args)
    queue.say_if_silent(store, loaded)
    return 0


def _gpus(args: argparse.Namespace, loaded: Sequence[SweepSpec]) -> str | None:
    """The GPUs that are named; else that of the paper, if all jobs ask for a GPU and there is none here."""
    wanted = all(block.resources.gpus_per_node for spec in loaded for block in spec.blocks)
    here = args.gpu or args.no_measure or visible_gpus()
    return gpus.PAPERS if wanted and not here else args.gpu


def status(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Show how far the sweeps are, once or until all is done."""
    try:
        while not _look(args, store, loaded) and args.watch and streams.is_read():
            time.sleep(args.every)
    except KeyboardInterrupt:
        if not args.watch:
            raise
        return EXIT_INTERRUPTED  # the way to leave --watch; it needs no message
    return 0


def _look(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> bool:
    """Show the status once; whether nothing is left to wait for."""
    from sweeps.cluster import queue
    from sweeps.screens import status as screens

    screen = screens.look(store, [(spec, _points(store, spec)) for spec in loaded])
    width = None if args.json else terminal_width()
    if args.watch and width is not None:
        streams.clear_screen()
    when = time.time() if args.watch else None
    emit(screens.report(screen, width, when), args, in_a_line=args.watch)
    queue.say_if_silent(store, loaded)
    return screen.settled


def cost(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Show what the sweeps have taken so far."""
    from sweeps.screens import spent

    bills = {spec.name: spent.blocks(store, spec, _points(store, spec)) for spec in loaded}
    emit(spent.report(bills), args)
    return 0


def reap(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Tidy up what dead processes left."""
    from sweeps.cluster import reap

    _check_plans(args, store, loaded)
    for spec in loaded:
        for note in reap.reap(store, spec, everything(store, spec), replace=args.replace).notes():
            print(f"{spec.name}: {note}")
    return 0


def _points(store: Store, spec: SweepSpec) -> list[Point]:
    """The points as last planned, which is quick; planned again if the file or the words are others."""
    points = stored(store.root, spec)
    return [one.point for one in everything(store, spec)] if points is None else points
