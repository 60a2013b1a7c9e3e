"""The frames of the figures of a ladder: what a rule is worth, and losses over lengths."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from htbench.harness.paper import reported
from htbench.harness.show.note import Note
from htbench.harness.store import Store
from htbench.results.compare.ladder import Entry, Ladder, fit_ladders
from htbench.results.compare.ladder_points import BASELINE
from htbench.results.compare.view import Side
from htbench.results.figures import kinds
from htbench.results.figures.kinds import About, Panel, Row, tidy
from htbench.results.frames.rows import Frame

_WORTH = f"tokens {BASELINE} would need / tokens"
_LOSS = "test loss (nats/token)"
# Matrix-based optimizers over AdamW, Muon among them: 1.4 at .1B parameters becomes 1.1 at 1.2B.
# Source: Wen et al., Fantastic pretraining optimizers and where to find them, arXiv:2509.02046, abstract.
_FANTASTIC = ((0.1e9, 1.4), (1.2e9, 1.1))
_OF_PAPER = {"llama-60m": 60e6, "llama-135m": 135e6}
_POINTS_OF_LAW = 40


def multiplier(frame: Frame, store: Store) -> list[Panel]:
    """The token multiplier of each rule over parameters, where most are known, and published ones."""
    return [_multiplier(own) for own in fit_ladders(frame, store) if any(one.tokens for one in own.entries)]


def horizon(frame: Frame, store: Store) -> list[Panel]:
    """The losses over the length of a run, a panel for each size that has several, with AdamW's law."""
    return [panel for own in fit_ladders(frame, store) for panel in _horizons(own)]


def published(side: Side) -> list[Panel]:
    """The published multipliers alone, if they are asked for."""
    return [Panel("sizes", About("published"), tidy(_published()), y_label=_WORTH)] if side.asked else []


# --- multipliers ---


def _multiplier(own: Ladder) -> Panel:
    ratio = own.ratio_in_sight
    rows = [row for one in own.entries if one.tokens and one.rung.is_at(ratio) for row in _of_entry(one)]
    level = Row(_WORTH, BASELINE, "", 1.0, optimizer=BASELINE, role=kinds.LEVEL)
    of = _about(own, own.task, [row.n or 0 for row in rows]).noted(Note("ladder_ratio", ratio=ratio))
    frame = tidy([*sorted(rows, key=lambda row: row.series), *_published(), level])
    return Panel("sizes", of, frame, y_label=_WORTH, higher_is_better=True, y_log=False)


def _of_entry(one: Entry) -> list[Row]:
    """The multiplier of a rung; one beyond all that AdamW reached has an arrow at the end of sight."""
    assert one.tokens is not None
    found, rung = one.tokens, one.rung
    row = Row(_WORTH, rung.optimizer, rung.parameters, found.value, n=len(rung.row.values), keys=rung.keys)
    row = replace(row, optimizer=rung.optimizer)
    if found.value is None:
        role = kinds.ABOVE if found.is_above else kinds.BELOW
        return [replace(row, y=found.most if found.is_above else found.least, role=role)]
    if found.low is None and found.high is None:
        return [row]
    low = found.least if found.low is None else found.low
    high = found.most if found.high is None else found.high
    return [replace(row, y_low=low, y_high=high)]


def _published() -> list[Row]:
    """Points of two papers. That of HTMuon compares with Muon, not with AdamW: its series says so."""
    fantastic = [Row(_WORTH, "muon", size, times, optimizer="muon") for size, times in _FANTASTIC]
    over_muon = [
        Row(_WORTH, "htmuon_ns over muon", size, _share_of_hours(model), optimizer="htmuon_ns")
        for model, size in _OF_PAPER.items()
    ]
    return [replace(row, source=kinds.PUBLISHED) for row in (*fantastic, *over_muon)]


def _share_of_hours(model: str) -> float:
    """The hours of a whole run of HTMuon_NS over those until it is as good as Muon at its end."""
    whole, until = (
        next(
            line.value
            for line in reported.of_table(table)
            if (line.model, line.setting.optimizer, line.setting.interval) == (model, "htmuon_ns", 5)
            and line.metric.startswith("hours")
        )
        for table in ("wall_clock", "wall_clock_to_target")
    )
    return whole / until


# --- losses ---


def _horizons(own: Ladder) -> list[Panel]:
    panels = []
    groups = own.groups
    main = [one.rung for one in own.entries if one.is_main]
    for model, group in groupby(main, key=lambda rung: rung.model):
        rungs = list(group)
        if len({rung.tokens for rung in rungs}) < 2:
            continue
        rows = [_loss_of(rung, rung.ratio) for rung in sorted(rungs, key=lambda rung: rung.optimizer)]
        if own.law is not None and model in groups:
            n, at = rungs[0].parameters, groups[model]
            ratios = np.geomspace(rungs[0].ratio, rungs[-1].ratio, _POINTS_OF_LAW)
            rows += _curve(BASELINE, ratios, [own.law.loss(ratio * n, at)[0] for ratio in ratios])
        of = _about(own, f"{own.task} · {model}", [len(rung.row.values) for rung in rungs])
        panels.append(Panel("lengths", of, tidy(rows), y_label=_LOSS, y_log=False))
    return panels


def _loss_of(rung: Any, x: float) -> Row:
    values = list(rung.row.values.values())
    sd = statistics.stdev(values) if len(values) > 1 else None
    row = Row(_LOSS, rung.optimizer, x, statistics.fmean(values), sd, n=len(values), keys=rung.keys)
    return replace(row, optimizer=rung.optimizer)


def _curve(name: str, x: Iterable[float], y: Iterable[float]) -> list[Row]:
    blank = Row(_LOSS, f"{name}, law", "", None, optimizer=name, role=kinds.LAW)
    return [replace(blank, x=float(at), y=float(loss)) for at, loss in zip(x, y, strict=True)]


def _about(own: Ladder, title: str, seeds: Sequence[int]) -> About:
    return About(title, family=own.task, metric="test loss", seeds=seeds)
