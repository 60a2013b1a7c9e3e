"""The table over workloads: how much worse each optimizer is than the best one, on all that they share.

An optimizer that is better by all its seeds on two workloads of three is better on two of three: workloads
are what is drawn, not seeds.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell, Column, Report, Section, by_columns
from htbench.results.compare.summary import values_by_seed
from htbench.results.compare.view import View
from htbench.results.compare.workloads import LEAST_OF_PROFILE, compare_over_workloads, performance_profile
from htbench.results.tables import footnotes

Losses = Mapping[str, Sequence[float]]  # of the reported runs, by optimizer
Notes = dict[str, dict[Note, None]]  # on the choices of an optimizer
_FACTORS = (1.01, 1.05)  # times the least perplexity


def make_table(view: View) -> Report:
    """One section on all language models, if two workloads or more have the same two optimizers or more."""
    losses, notes = _list_losses(view)
    common = [name for name in (losses[0] if losses else ()) if all(name in workload for workload in losses)]
    sections = [_make_section(losses, common, notes)] if len(losses) > 1 and len(common) > 1 else []
    return Report("workloads", "optimizers compared over several workloads", sections)


def _list_losses(view: View) -> tuple[list[Losses], Notes]:
    """Of each workload whose reported split chose nothing, and what is to be told of the choices."""
    workloads: list[Losses] = []
    notes: Notes = {}
    for workload in view.workloads:
        metric = workload.metric
        if not metric.is_log or not workload.is_fair:
            continue
        values = [(each, list(values_by_seed(each.replicas, metric).values())) for each in workload.choices]
        with_values = [(each, list(map(metric.on_scale, achieved))) for each, achieved in values if achieved]
        if len(with_values) > 1:
            workloads.append({choice.optimizer: losses for choice, losses in with_values})
            for choice, _ in with_values:
                choice_notes = footnotes.note_choice(choice, choice.axes)
                notes.setdefault(choice.optimizer, {}).update(dict.fromkeys(choice_notes))
    return workloads, notes


def _make_section(losses: Sequence[Losses], names: Sequence[str], notes: Notes) -> Section:
    import numpy as np

    means = np.array([[statistics.fmean(workload[name]) for workload in losses] for name in names])
    best = names[int(means.mean(axis=1).argmin())]
    runs = [
        (name, str(at), x) for name in names for at, workload in enumerate(losses) for x in workload[name]
    ]
    rules, places, values = zip(*runs, strict=True)
    effects = {effect.rule: effect for effect in compare_over_workloads(rules, places, values, best)}
    compared = [effects.get(name) for name in names]
    first = means.argmin(axis=0)
    columns: dict[Column, list[Any]] = {
        Column("optimizer", kind="text"): [Cell(name, notes=tuple(notes[name])) for name in names],
        Column("gap_nats", "gap (nats)", digits=4): [effect and effect.gap for effect in compared],
        Column("error", "standard error", digits=4): [effect and effect.error for effect in compared],
        Column("p", "p-value"): [effect and float(f"{effect.p_value:.2g}") for effect in compared],
        Column("best_on", "best on"): [int((first == at).sum()) for at in range(len(names))],
    }
    if len(losses) >= LEAST_OF_PROFILE:
        shares = performance_profile(np.exp(means), _FACTORS)
        for factor, column_shares in zip(_FACTORS, shares.T.tolist(), strict=True):
            words = f"within_{factor - 1:.0%}", f"within {factor - 1:.0%}"
            columns[Column(*words, unit="%")] = column_shares
    below = (Note("workloads", count=len(losses), best=best), Note("workloads_best_on"))
    identity = {"workloads": str(len(losses))}
    return by_columns(
        columns, title=f"{len(losses)} workloads of language models", notes=below, identity=identity
    )
