"""The actions of `htbench sweep`: each hands on to the module that does it, and returns the exit status."""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from htbench.harness.choice.winner import grouped
from htbench.harness.config.parts import search_no_more
from htbench.harness.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, UsageError, at_least, nearest
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
from htbench.sweeps.plan.stored import count_read_otherwise, read_plan, searched, trained_again, write_plan
from htbench.sweeps.spec.sweep import SweepSpec

if TYPE_CHECKING:
    from htbench.sweeps.screens.plan import Preview


def run(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Train what is missing, on this machine; then say what came out, unless another command will."""
    from htbench.sweeps.run.runner import Runner

    began = time.monotonic()
    runner = Runner(store, loaded, args.workers, args.minutes, quiet=args.quiet, replace=args.replace)
    for live in runner.sweeps:
        search = live.search
        if store.root.is_dir():  # what is settled needs no machine: it may have been trained on a larger one
            planned, run_states = everything_with_states(store, live.spec)
            search = [p for p in planned if not run_states[p.point.id].status.is_settled]
            finished = sum(state.record is not None for state in run_states.values())
            for why, runs in trained_again(store, live.spec, search, run_states).items():
                say(Note("trained_again", runs=runs, why=why, kept=finished))
            if runs := count_read_otherwise(planned, run_states):
                say(Note("read_otherwise", n=runs))
        check_start(live.spec, search, store.root, action="run")
    make_folder(store.root)
    runner.run()
    if runner.interrupted:
        say(Note("sweep_stopped"))
    if runner.monitor.stop_requested:
        return EXIT_INTERRUPTED
    for why, names in grouped(runner.unfinished, lambda name: runner.unfinished[name]).items():
        say(Note("runs_ended", first=names[0], more=len(names) - 1, why=why))
    if runner.unfinished:
        say(Note("sweep_goes_on"))
    if not args.is_step:
        show_end(store, [spec.name for spec in loaded], time.monotonic() - began)
    return EXIT_RUN_FAILED if runner.unfinished or runner.interrupted else 0


def show_end(store: Store, sweeps: Sequence[str], seconds: float, **parts: Any) -> None:
    """Show the results of some sweeps, as `results.page.ending.ending` says."""
    from htbench.harness.cli import ABOVE

    search_no_more()
    emit(importlib.import_module(ABOVE["ending"]).ending(store, sweeps, seconds, **parts))


def try_first(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Start the first run of each sweep of a program in a store of its own, which is gone afterwards."""
    from htbench.sweeps.screens.trial_run import try_program

    at_least(args, 1, "seconds")
    for spec in loaded:
        if not spec.is_program:
            raise UsageError(f"The sweep '{spec.name}' has no program to try; `sweep plan` shows its runs.")
        search = searched(store.root, spec)
        check_start(spec, search, store.root, action="plan")
        emit(try_program(spec, search[0].config, args.seconds), args)
    return 0


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
        search = [p.point for p in filled(store.root, searched(store.root, spec))]
        if missing := sum(not state.status.is_settled for state in states(store, search).values()):
            raise UsageError(
                f"The sweep '{spec.name}' has {missing} runs without a result yet, so its winners are not "
                f"known; `{write_command('sweep', 'run', spec.name)}` finishes them first."
            )
    return run(args, store, loaded)


def submit(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Hand what is missing to SLURM."""
    from htbench.sweeps.cluster import submit as submission
    from htbench.sweeps.studies import refresh

    loaded = _select_sweeps(args.block, {s.name: {block.name for block in s.blocks} for s in loaded}, loaded)
    for spec in loaded:
        submission.check_name(spec)
    if args.dry_run:
        args.sbatch = True  # this parser leaves all other flags of `plan` at None
        return plan(args, store, loaded)
    plans = [(spec, everything(store, spec)) for spec in loaded]
    for spec, planned in plans:  # all of them before the first is submitted
        check_start(spec, planned, store.root, action="submit")
    options = submission.SubmitOptions(args.block or "", args.retry, args.replace)
    for spec, planned in plans:
        report = submission.submit(store, spec, planned, options)
        notes = report.make_notes(spec, len(options.select(planned)), args.quiet)
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
        points = {s.name: [*_read_points(store, s), *ever_planned(store.root, s.name)] for s in loaded}
        blocks = {name: {point.block for point in planned} for name, planned in points.items()}
        ids = {p.id for planned in points.values() for p in planned if p.block == args.block}
        chosen = _select_sweeps(args.block, blocks, loaded)
    for spec in chosen:
        emit(Report("sweep cancel", "", notes=[queue.cancel(store.root, spec.name, ids)]), args)
    return 0


def _select_sweeps(
    block: str | None, blocks: Mapping[str, Set[str]], loaded: Sequence[SweepSpec]
) -> Sequence[SweepSpec]:
    """The sweeps that have a block of this name, by the blocks of each; all sweeps if there is no name.

    Raises:
        UsageError: none has it.
    """
    sweeps = [spec for spec in loaded if block is None or block in blocks[spec.name]]
    if block is not None and not sweeps:
        raise UsageError(f"Unknown block '{block}'; {nearest(block, set().union(*blocks.values()))}")
    return sweeps


def index(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Write index, plan and studies anew."""
    from htbench.sweeps.studies import refresh

    make_folder(store.root)
    notes = [Note("index_rebuilt", records=store.rebuild_index())]
    for key, fault in faults(store).items():
        say(f"run {key}: {fault}")
    for spec in loaded:
        planned = everything(store, spec)
        slots = search_points(spec) if spec.search.has_slots else []  # empty, as `write_plan` wants them
        write_plan(store.root, spec, slots + [p for p in planned if not p.point.slot], replace=args.replace)
        notes.append(Note("sweep_rebuilt", sweep=spec.name, points=len(planned)))
        places = refresh.refresh(store, spec, planned, rebuild=True)
        notes += [Note("dashboard", place=place) for place in places]
    emit(Report("sweep index", "", notes=notes), args)
    return 0


def preview_sweeps(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> Iterator[Preview]:
    """The runs of each sweep that are not finished, with their cost."""
    from htbench.sweeps.screens import plan as screen
    from htbench.sweeps.screens.cost_card import Costs

    costs = Costs(store, not args.no_measure)
    for spec in loaded:
        yield screen.preview_sweep(store, spec, costs)


def plan(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Show the runs that are not finished, with their cost."""
    from htbench.sweeps.cluster import queue, submit
    from htbench.sweeps.screens import plan as screen

    if args.test_only:
        submit.max_array_size()  # raises SlurmError; a dry run alone needs no SLURM
    views = list(preview_sweeps(args, store, loaded))
    for view in views:
        if args.sbatch or args.test_only:
            # The parser of `plan` has none of these flags.
            options = submit.SubmitOptions(args.block or "")
            view.facts.sbatch.extend(submit.write_scripts(store, view.spec, view.planned, options))
    try:
        for view in views if args.test_only else []:
            view.facts.answers.extend(submit.ask_slurm(view.spec.name, view.facts.sbatch))
    finally:  # what SLURM refuses is shown, too
        emit(screen.make_report(views, with_arrays=args.sbatch, with_points=args.points), args)
    queue.say_if_silent(store, loaded)
    return 0


def status(args: argparse.Namespace, store: Store, loaded: Sequence[SweepSpec]) -> int:
    """Show how far the sweeps are, once or until all is done."""
    from htbench.sweeps.cluster import queue
    from htbench.sweeps.screens import status as screens

    try:
        while True:
            screen = screens.read_screen(store, [(spec, _read_points(store, spec)) for spec in loaded])
            if args.watch and not args.json and terminal_width() is not None:
                streams.clear_screen()
            if args.words or args.sweep:
                report = screens.make_report(screen, time.time() if args.watch else None)
            else:
                report = screens.make_overview(screen, store.root)
            emit(report, args, stream=args.watch)
            queue.say_if_silent(store, loaded)
            if screen.settled or not args.watch or not streams.is_read():
                return 0
            time.sleep(args.every)
    except KeyboardInterrupt:
        if not args.watch:
            raise
        return EXIT_INTERRUPTED  # the way to leave --watch; it needs no message


def _read_points(store: Store, spec: SweepSpec) -> list[Point]:
    """The points of the stored plan, which is quick; planned again if file or words are new."""
    points = read_plan(store.root, spec)
    return [p.point for p in everything(store, spec)] if points is None else points
