"""Checks of a plan before anything starts: its data and code, and the machines that are to run it."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from htbench.harness.choice.winner import MIN_SEEDS
from htbench.harness.config import RunConfig, limits, programs
from htbench.harness.config.limits import MOST_STEPS
from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.store.layout import cache_folder
from htbench.sweeps.plan.planned import Planned, block_of
from htbench.sweeps.plan.program_copy import copy_program
from htbench.sweeps.spec import database
from htbench.sweeps.spec.resources import Resources
from htbench.sweeps.spec.sweep import SweepSpec


def check_start(spec: SweepSpec, planned: Sequence[Planned], root: Path, *, action: str) -> None:
    """Refuse what can't be run, and warn of what would be slow.

    Args:
        spec: the sweep.
        planned: its points.
        root: the store.
        action: `run` is for this machine, `submit` for what `resources` ask for, and `plan` for the latter if
            the file has any.

    Raises:
        UsageError: one sentence.
    """
    try:
        database.check_driver(spec.search.storage)
    except UsageError as error:
        raise UsageError(f"Sweep '{spec.name}': {error}") from None
    warnings: list[str] = []
    if spec.is_program and planned:
        program = programs.of(planned[0].config)
        if not any("{run_dir}" in text for text in program.templates):
            warnings.append(str(Note("program_without_run_dir", place="{run_dir}")))
        if action != "plan":
            copy_program(root, program)
    ours = [] if spec.is_program else planned
    # Points that agree in these settings pass or fail together. A block may have thousands.
    kinds = {}
    for p in ours:
        c, wanted = p.config, block_of(spec, p.point).resources
        data = (c.task, c.data_fingerprint, c.seq_len, c.batch_size, c.steps, c.epochs, c.layout, c.protocol)
        checked = (*data, c.device, c.processes, c.threads)
        kinds[checked, wanted] = c
    # The longest runs first: what has to be prepared for them is enough for all.
    longest_first = sorted(
        kinds.items(), key=lambda kind: -(kind[1].steps or MOST_STEPS) * kind[1].batch_size
    )
    for (_, wanted), config in longest_first:
        try:
            limits.check_data(config, cache_folder(root), prepared=action != "plan")
            of_a_job = dataclasses.replace(wanted, runs_per_gpu=1) != Resources()
            here = action == "run" or (action == "plan" and not of_a_job)
            warnings += limits.check_here(config) if here else _check_job(wanted, config)
        except UsageError as error:
            raise UsageError(f"Sweep '{spec.name}': {error}") from None
    unmeant = [facts for p in ours for facts in limits.schedules_unmeant(p.config)]
    warnings += [str(Note("schedule_unmeant", **facts)) for facts in unmeant]
    if planned and 0 < spec.fresh_seeds < MIN_SEEDS:
        warnings.append(str(Note("few_seeds", seeds=spec.fresh_seeds, least=MIN_SEEDS)))
    limits.warn(f"{spec.name}: {sentence}" for sentence in warnings)


def _check_job(wanted: Resources, config: RunConfig) -> list[str]:
    """Warnings on a run in a job of these resources. Raises UsageError if the job can't train it."""
    of_sbatch = (*wanted.setup, *wanted.options, str(wanted.options.get("gres")))
    no_gpu = not wanted.gpus_per_node and not any("gpu" in word for word in of_sbatch)
    if config.device == "cuda" and no_gpu:
        raise UsageError("device=cuda, but its resources ask for no GPU; add gpus_per_node: 1 to them.")
    asked = f"threads={config.threads}"
    return limits.check_cores(asked, config.threads, wanted.cpus_per_task, "cpus_per_task asks for")
