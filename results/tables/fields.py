"""What tells the published numbers of a table apart, by name, and how it is labelled at each scale."""

from __future__ import annotations

from collections.abc import Iterable

from harness.paper import scales
from harness.paper.reported import Reported
from results.compare.quantities import quantity

Value = str | float | None
Key = tuple[Value, ...]
_NO_MAP = " p=0"  # what the rows of Muon are called in tables over p
_STEPS = ("lr", "p", "interval")  # fields that are numbers and ascend


def value(line: Reported, field: str) -> Value:
    """A field of a published number; None if its optimizer has none."""
    if field == "optimizer":
        return line.row.removesuffix(_NO_MAP)
    if field == "p":
        return 0.0 if line.row.endswith(_NO_MAP) else line.setting.p
    if field == "interval":
        return line.setting.interval
    return str(getattr(line, field)) if field in ("dataset", "model", "metric") else line.lr


def leaves_p_open(line: Reported) -> bool:
    """Whether the cell is that of the best p (see `paper_lines`)."""
    return line.table.startswith("p_grid") and value(line, "p") is None


def key(line: Reported, fields: tuple[str, ...]) -> Key:
    """Several of them."""
    return tuple(value(line, field) for field in fields)


def distinct(lines: Iterable[Reported], fields: tuple[str, ...]) -> dict[Key, Reported]:
    """The first number of each key, in the order of the lines."""
    found: dict[Key, Reported] = {}
    for line in lines:
        found.setdefault(key(line, fields), line)
    return found


def place(fields: tuple[str, ...], key: Key) -> tuple[float, ...]:
    """What to sort keys by, so that numbers ascend and words keep their order; None is at one of the ends."""
    last = {"p": float("inf")}  # of p it means any: the column of the tuned p
    return tuple(
        last.get(field, -1.0) if found is None else float(found)
        for field, found in zip(fields, key, strict=True)
        if field in _STEPS
    )


def label(line: Reported, field: str, scale: str) -> Value:
    """A field in the words of a scale: data sets and models are those that stand for the published ones."""
    if field in ("dataset", "model"):
        return scales.workload(scale, line.dataset, line.model)[field == "model"]
    if field == "metric":
        what = quantity(line, scale)
        return what.metric.label.removesuffix(" (%)") if what else line.metric
    return value(line, field)


def plain(line: Reported, fields: tuple[str, ...], scale: str) -> tuple[tuple[str, str], ...]:
    """Names and labels for CSV."""
    return tuple((field, _plain(field, label(line, field, scale))) for field in fields)


def _plain(field: str, found: Value) -> str:
    if found is None:
        return "tuned" if field == "p" else ""
    return f"{found:g}" if isinstance(found, float | int) else found


def words(line: Reported, fields: tuple[str, ...], scale: str) -> str:
    """Several labels as one: "llama-60m hours", "lr 0.01", "p 0.1"."""
    return " ".join(_word(field, label(line, field, scale)) for field in fields)


def _word(field: str, found: Value) -> str:
    if found is None:
        return "tuned p" if field == "p" else f"no {field}"
    return f"{field} {found:g}" if isinstance(found, float | int) else found
