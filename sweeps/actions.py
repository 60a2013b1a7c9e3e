"""The actions of `htbench sweep`: each hands on to the module that does it, and returns the exit status."""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from htbench.harness.choice.winner import grouped
from htbench.harness.config.parts import search_no_more
from htbench.harness.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, UsageError, nearest
from htbench.harness.show.commands import write_command
from htbench.harness.show.emit import emit, say
from htbench.harness.show.note import Note
from htbench.harness.show.report import Report
from htbench.harness.show.terminal import terminal_width
from htbench.harness.store import Store
from htbench.harness.store.check import faults
from htbench.harness.store.points import Point, ever_planned
from htbench.harness.system import slurm, streams
from htbench.harness.system.folders import make_folder
from htbench.sweeps.plan.planned import filled, search_points, states
from htbench.sweeps.plan.replicas import everything, everything_with_states
from htbench.sweeps.plan.start import check_start
from htbench.sweeps.plan.stored import searched, stored, trained_again, write_plan
from htbench.sweeps.spec.sweep import SweepSpec

if TYPE_CHECKING:
    from htbench.sweeps.screens.plan import Preview


def run(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Train what is missing, on this machine; then say what came out, unless another command will."""
    from htbench.sweeps.run.runner import Runner

    began = time.monotonic()
    runner = Runner(store, loaded, args.workers, quiet=args.quiet, replace=args.replace)
    for live in runner.sweeps:
        search = live.search
        if store.root.is_dir():  # what is settled needs no machine: it may have been trained on a larger one
            planned, known = everything_with_states(store, live.spec)
            search = [p for p in planned if not known[p.point.id].status.is_settled]
            kept = sum(state.record is not None for state in known.values())
            for why, runs in trained_again(store, live.spec, search, known).items():
                say(Note("trained_again", runs=runs, why=why, kept=kept))
        check_start(live.spec, search, store.root, action="run")
    make_folder(store.root)
    runner.run()
    if runner.interrupted:
        say(Note("sweep_stopped"))
        return EXIT_INTERRUPTED
    for why, names in grouped(runner.unfinished, lambda name: runner.unfinished[name]).items():
        say(Note("runs_ended", first=names[0], more=len(names) - 1, why=why))
    if runner.unfinished:
        say(Note("sweep_goes_on"))
    if not args.is_step:
        end(store, [spec.name for spec in loaded], time.monotonic() - began)
    return EXIT_RUN_FAILED if runner.unfinished else 0


def end(store: Store, sweeps: Sequence[str], seconds: float, **parts: Any) -> None:
    """Show what some sweeps have found, as `results.page.ending.ending` says."""
    from htbench.harness.cli import ABOVE

    search_no_more()
    emit(importlib.import_module(ABOVE["ending"]).ending(store, sweeps, seconds, **parts))


def retry(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Like `run`, but failed runs are tried again, too."""
    keys = [p.point.key for spec in loaded for p in everything(store, spec) if p.point.key]
    runs = sum(store.reset_failure(key) for key in keys)
    if not args.quiet:
        say(Note("sweep_retried", runs=runs))
    return run(args, store, loaded)


def replicate(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Run the winners on fresh seeds; UsageError if they are not known yet."""
    for spec in loaded:
        if not spec.fresh_seeds:
            raise UsageError(
                f"The sweep '{spec.name}' asks for no replicas; add `replicate: {{seeds: 3}}` to it."
            )
        known = states(store, [p.point for p in filled(store.root, searched(store.root, spec))])
        if left := sum(not state.status.is_settled for state in known.values()):
            raise UsageError(
                f"The sweep '{spec.name}' has {left} runs without a result yet, so its winners are not "
                f"known; `{write_command('sweep', 'run', spec.name)}` finishes them first."
            )
    return run(args, store, loaded)


def submit(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Hand what is missing to SLURM."""
    from htbench.sweeps.cluster import submit as submission
    from htbench.sweeps.studies import refresh

    loaded = _with_block(args.block, {s.name: {block.name for block in s.blocks} for s in loaded}, loaded)
    for spec in loaded:
        submission.check(store.root, spec)
    if args.dry_run:
        args.sbatch = True  # this parser leaves all other flags of `plan` at None
        return plan(args, store, loaded)
    plans = [(spec, everything(store, spec)) for spec in loaded]
    for spec, planned in plans:  # all of them before the first is submitted
        check_start(spec, planned, store.root, action="submit")
    options = submission.SubmitOptions(args.block or "", args.retry, args.replace)
    for spec, planned in plans:
        report = submission.submit(store, spec, planned, options)
        notes = report.notes(spec, len(options.of_block(planned)), args.quiet)
        emit(Report("sweep submit", "", notes=notes), args)  # at once: SLURM may refuse the next one
        refresh.refresh(store, spec, planned)
    return 0


def cancel(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Take jobs out of SLURM's queue."""
    from htbench.sweeps.cluster import queue

    slurm.require("scancel")  # without it "0 jobs cancelled" would look like SLURM's answer
    chosen, ids = loaded, None
    if args.block is not None:
        # The plan in the store may have blocks and points that the file has no more.
        points = {s.name: [*_points(store, s), *ever_planned(store.root, s.name)] for s in loaded}
        blocks = {name: {point.block for point in planned} for name, planned in points.items()}
        ids = {p.id for planned in points.values() for p in planned if p.block == args.block}
        chosen = _with_block(args.block, blocks, loaded)
    for spec in chosen:
        emit(Report("sweep cancel", "", notes=[queue.cancel(store.root, spec.name, ids)]), args)
    return 0


def _with_block(
    block: str | None, blocks: Mapping[str, Set[str]], loaded: Sequence[SweepSpec]
) -> Sequence[SweepSpec]:
    """The sweeps that have a block of this name, by the blocks of each; all sweeps if there is no name.

    Raises:
        UsageError: none has it.
    """
    if block is None:
        return loaded
    having = [spec for spec in loaded if block in blocks[spec.name]]
    if not having:
        raise UsageError(f"Unknown block '{block}'; {nearest(block, set().union(*blocks.values()))}")
    return having


def index(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Write index, plan and studies anew."""
    from htbench.sweeps.studies import refresh

    make_folder(store.root)
    notes = [Note("index_rebuilt", records=store.rebuild_index())]
    for key, what in faults(store).items():
        say(f"run {key}: {what}")
    for spec in loaded:
        planned = everything(store, spec)
        slots = search_points(spec) if spec.search.has_slots else []  # empty, as `write_plan` wants them
        write_plan(store.root, spec, slots + [p for p in planned if not p.point.slot], replace=args.replace)
        notes.append(Note("sweep_rebuilt", sweep=spec.name, points=len(planned)))
        places = refresh.refresh(store, spec, planned, rebuild=True)
        notes += [Note("dashboard", place=place) for place in places]
    emit(Report("sweep index", "", notes=notes), args)
    return 0


def reap(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Tidy up what dead processes left."""
    from htbench.sweeps.cluster import reap

    for spec in loaded:
        if notes := reap.reap(store, spec, everything(store, spec), replace=args.replace):
            emit(Report("sweep reap", "", notes=notes), args)
    return 0


def previews(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> Iterator[Preview]:
    """What is left to run of each sweep, and what it takes."""
    from htbench.sweeps.screens import plan as screen
    from htbench.sweeps.screens.cost_card import Costs

    costs = Costs(store, not args.no_measure)
    for spec in loaded:
        yield screen.preview(store, spec, costs)


def plan(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Show what is left to run and what it takes."""
    from htbench.sweeps.cluster import queue, submit
    from htbench.sweeps.screens import plan as screen

    if args.test_only:
        submit.max_array_size()  # raises SlurmError; a dry run alone needs no SLURM
    views = list(previews(args, store, loaded))
    for view in views:
        if args.sbatch or args.test_only:
            # The parser of `plan` has none of these flags.
            options = submit.SubmitOptions(args.block or "")
            view.facts.sbatch.extend(submit.scripts(store, view.spec, view.planned, options))
    try:
        for view in views if args.test_only else []:
            view.facts.answers.extend(submit.ask_about(view.spec.name, view.facts.sbatch))
    finally:  # what SLURM refuses is shown, too
        emit(screen.report(views, with_arrays=args.sbatch, with_points=args.points), args)
    queue.say_if_silent(store, loaded)
    return 0


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
    from htbench.sweeps.cluster import queue
    from htbench.sweeps.screens import status as screens

    screen = screens.look(store, [(spec, _points(store, spec)) for spec in loaded])
    if args.watch and not args.json and terminal_width() is not None:
        streams.clear_screen()
    when = time.time() if args.watch else None
    named = args.words or args.sweep
    report = screens.report(screen, when) if named else screens.overview(screen, store.root)
    emit(report, args, stream=args.watch)
    queue.say_if_silent(store, loaded)
    return screen.settled


def _points(store: Store, spec: SweepSpec) -> list[Point]:
    """The points as last planned, which is quick; planned again if the file or the words are others."""
    points = stored(store.root, spec)
    return [p.point for p in everything(store, spec)] if points is None else points
