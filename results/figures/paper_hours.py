"""The published perplexity against the published hours, both from the table of wall-clock times."""

from __future__ import annotations

from harness.paper import reported
from harness.paper.reported import Reported
from results.compare.stats import summarize
from results.figures import paper_words as words
from results.figures.kinds import PUBLISHED
from results.figures.pareto_panels import CostPanel, CostPoint, panel_of
from results.figures.view import View

_TABLE = "wall_clock"


def hours(view: View) -> list[CostPanel]:
    """One panel per model; all of its times are from the same hardware."""
    every = reported.of_table(_TABLE)
    workloads = dict.fromkeys((line.dataset, line.model) for line in every)
    return [
        _panel(view, *one, [line for line in every if (line.dataset, line.model) == one]) for one in workloads
    ]


def _panel(view: View, dataset: str, model: str, lines: list[Reported]) -> CostPanel:
    quality = [line for line in lines if line.metric == "perplexity"]
    time = {line.setting: line for line in lines if line.metric == "hours"}
    points = [_point(line, time[line.setting]) for line in quality]
    below = f"published, {lines[0].hardware}"
    title = words.workload(view, dataset, model)
    return panel_of(title, below, "perplexity", False, "training time (hours)", points, PUBLISHED)


def _point(quality: Reported, time: Reported) -> CostPoint:
    setting = quality.setting
    more = f"interval {setting.interval}" if setting.interval is not None else ""
    return CostPoint(setting.optimizer, summarize([time.value]), summarize([quality.value]), (), more)
