"""The frames of the figures of a ladder: what a rule is worth, and losses over lengths."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from htbench.harness.paper import reported
from htbench.harness.show.note import Note
from htbench.results.compare.ladder import Entry, Ladder
from htbench.results.compare.ladder_points import BASELINE
from htbench.results.compare.stats import summarize
from htbench.results.compare.view import View
from htbench.results.figures import kinds
from htbench.results.figures.kinds import About, Panel, Row, tidy

_WORTH = f"tokens {BASELINE} would need / tokens"
_LOSS = "test loss (nats/token)"
# Matrix-based optimizers over AdamW, Muon among them: 1.4 at .1B parameters becomes 1.1 at 1.2B.
# Source: Wen et al., Fantastic pretraining optimizers and where to find them, arXiv:2509.02046, abstract.
_FANTASTIC = ((0.1e9, 1.4), (1.2e9, 1.1))
_OF_PAPER = {"llama-60m": 60e6, "llama-135m": 135e6}
_POINTS_OF_LAW = 40


def multiplier(view: View) -> list[Panel]:
    """The token multiplier of each rule over parameters, where most are known, and published ones.

    Published ones stand alone if they are asked for.
    """
    level = Row(_WORTH, BASELINE, "", 1.0, role=kinds.LEVEL)
    panels = [Panel("sizes", About("published"), tidy(_published_rows()))] if view.asked else []
    for ladder in view.ladders:
        if not any(entry.tokens for entry in ladder.entries):
            continue
        ratio = ladder.ratio
        entries = [entry for entry in ladder.entries if entry.tokens and entry.rung.is_at(ratio)]
        rows = sorted(map(_multiplier_row, entries), key=lambda row: row.series)
        about = _describe(ladder, ladder.task, [row.n or 0 for row in rows])
        about = about.noted(Note("ladder_ratio", ratio=ratio))
        values = tidy([*rows, *_published_rows(), level])
        panels.append(Panel("sizes", about, values, higher_is_better=True, y_log=False))
    return panels


def horizon(view: View) -> list[Panel]:
    """The losses over the length of a run, a panel for each size that has several, with AdamW's law."""
    panels = []
    for ladder in view.ladders:
        groups = ladder.groups
        main = [entry.rung for entry in ladder.entries if entry.is_main]
        for model, group in groupby(main, key=lambda rung: rung.model):
            rungs = list(group)
            if len({rung.tokens for rung in rungs}) < 2:
                continue
            rows = []
            for rung in sorted(rungs, key=lambda rung: rung.optimizer):
                mean = summarize([*rung.row.values.values()])
                row = Row(_LOSS, rung.optimizer, rung.ratio, mean.mean, mean.std, n=mean.n, keys=rung.keys)
                rows.append(row)
            if ladder.law is not None and model in groups:
                blank = Row(_LOSS, BASELINE, "", None, series=f"{BASELINE}, law", role=kinds.LAW)
                for ratio in np.geomspace(rungs[0].ratio, rungs[-1].ratio, _POINTS_OF_LAW):
                    loss = ladder.law.loss(ratio * rungs[0].parameters, groups[model])[0]
                    rows.append(replace(blank, x=float(ratio), y=float(loss)))
            about = _describe(ladder, f"{ladder.task} · {model}", [len(rung.row.values) for rung in rungs])
            panels.append(Panel("lengths", about, tidy(rows), y_log=False))
    return panels


def _multiplier_row(entry: Entry) -> Row:
    """The multiplier of a rung; one beyond all that AdamW reached has an arrow at the end of sight."""
    assert entry.tokens is not None
    multiple, rung = entry.tokens, entry.rung
    row = Row(_WORTH, rung.optimizer, rung.parameters, multiple.value, n=len(rung.row.values), keys=rung.keys)
    if multiple.value is None:
        role = kinds.ABOVE if multiple.is_above else kinds.BELOW
        return replace(row, y=multiple.most if multiple.is_above else multiple.least, role=role)
    if multiple.low is None and multiple.high is None:
        return row
    low = multiple.least if multiple.low is None else multiple.low
    high = multiple.most if multiple.high is None else multiple.high
    return replace(row, y_low=low, y_high=high)


def _published_rows() -> list[Row]:
    """Points of two papers. That of HTMuon compares with Muon, not with AdamW: its series says so."""
    fantastic = [Row(_WORTH, "muon", size, times) for size, times in _FANTASTIC]
    over_muon = [
        Row(_WORTH, "htmuon_ns", size, _share_of_hours(model), series="htmuon_ns over muon")
        for model, size in _OF_PAPER.items()
    ]
    return [replace(row, source=kinds.PUBLISHED) for row in (*fantastic, *over_muon)]


def _share_of_hours(model: str) -> float:
    """The hours of a whole run of HTMuon_NS over those until it is as good as Muon at its end."""
    whole, until = (
        next(
            line.value
            for line in reported.of_table(table)
            if (line.model, line.optimizer, line.interval) == (model, "htmuon_ns", 5)
            and line.metric.startswith("hours")
        )
        for table in ("wall_clock", "wall_clock_to_target")
    )
    return whole / until


def _describe(ladder: Ladder, title: str, seeds: Sequence[int]) -> About:
    return About(title, family=ladder.task, metric="test loss", seeds=seeds)
