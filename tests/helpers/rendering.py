"""Reports as text."""

from htbench.harness.show.emit import PARQUET, SUFFIXES, as_bytes, as_text

FORMATS = [form for form in SUFFIXES if form != PARQUET]
__all__ = ["FORMATS", "PARQUET", "SUFFIXES", "as_bytes", "render", "render_all"]


def render(report, form):
    return as_text([report], form)


def render_all(reports, form):
    return as_text(reports, form)
