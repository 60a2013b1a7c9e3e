"""What tells the published numbers of a table apart, by name, and how it is labelled at each scale."""

from __future__ import annotations

from harness.paper import scales
from harness.paper.reported import Reported
from results.paper.quantities import quantity

Value = str | float | None
_NO_MAP = " p=0"  # what the rows of Muon are called in tables over p
STEPS = ("lr", "p", "interval")  # fields that are numbers and ascend


def value(line: Reported, field: str) -> Value:
    """A field of a published number; None if its optimizer has none."""
    if field == "optimizer":
        return line.row.removesuffix(_NO_MAP)
    if field == "p":
        return 0.0 if line.row.endswith(_NO_MAP) else line.setting.p
    if field == "interval":
        return line.setting.interval
    return str(getattr(line, field)) if field in ("dataset", "model", "metric") else line.lr


def key(line: Reported, fields: tuple[str, ...]) -> tuple[Value, ...]:
    """Several of them."""
    return tuple(value(line, field) for field in fields)


def label(line: Reported, field: str, scale: str) -> Value:
    """A field in the words of a scale: data sets and models are those that stand for the published ones."""
    if field in ("dataset", "model"):
        return scales.workload(scale, line.dataset, line.model)[field == "model"]
    if field == "metric":
        what = quantity(line, scale)
        return what.metric.label.removesuffix(" (%)") if what else line.metric
    return value(line, field)


def words(line: Reported, fields: tuple[str, ...], scale: str) -> str:
    """Several labels as one: "llama-60m hours", "lr 0.01", "p 0.1"."""
    return " ".join(_word(field, label(line, field, scale)) for field in fields)


def _word(field: str, found: Value) -> str:
    if found is None:
        return f"no {field}"
    return f"{field} {found:g}" if isinstance(found, float | int) else found
