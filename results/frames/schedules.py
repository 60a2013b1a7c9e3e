"""Schedules of hyperparameters in words, for the cells of a table."""

from __future__ import annotations

from harness.config import hyper_schedules
from results.compare.select import Candidate


def of(candidate: Candidate | None) -> dict[str, str]:
    """How each hyperparameter with a schedule changes over a run, by its column: {"p": "0.25→-0.25"}."""
    if candidate is None:
        return {}
    settings = candidate.runs[0]
    parts = [hyper_schedules.split(name) for name in settings if isinstance(settings[name], str)]
    names = [part[0] for part in parts if part is not None and part[1] == "name"]
    return {
        name: "→".join(f"{settings[f'schedule.{name}.{end}']:g}" for end in ("from", "to")) for name in names
    }
