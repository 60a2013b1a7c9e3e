"""The facts of docs/outside.md are what a check finds where a package is installed."""

import importlib.metadata

import pytest

from docs import outside_page
from docs.outside_page import FAILS, PASSES
from htbench.harness.bench.contract import PROPERTIES


def test_every_class_stands_once_with_what_fails():
    rows = outside_page.committed()
    assert len({row.name for row in rows}) == len(rows) > 150
    assert {row.package for row in rows} == {*outside_page.PACKAGES.values()}
    assert {own for row in rows for own in row.properties.split()} <= {*PROPERTIES}
    assert all(bool(row.properties) == (row.verdict == FAILS) for row in rows)
    assert all(bool(row.reason) == (row.verdict not in (PASSES, outside_page.ENDLESS)) for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pytorch_optimizer:Lion", "pytorch_optimizer:AccSGD"])
def test_a_class_is_still_what_its_row_says(name):
    pytest.importorskip("pytorch_optimizer")
    row = next(row for row in outside_page.committed() if row.name == name)
    version = importlib.metadata.version(row.package)
    if version != row.version:
        pytest.skip(f"{version} is installed, not {row.version}")
    assert outside_page.tried(name, row.package, version) == row
