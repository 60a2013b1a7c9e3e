"""The formulas of the paper beside the operations that are counted."""

import subprocess
import sys

import pytest

from docs.counted_updates import count_updates
from htbench.results.compare.view import View
from htbench.results.tables import counted
from htbench.results.tables.flops import htmuon_ns, make_table, muon
from tests.helpers.rendering import render


@pytest.mark.parametrize(("m", "n"), [(512, 512), (512, 1376), (1376, 512), (32000, 512)])
def test_muon_takes_ten_cubes_more_than_the_formula(m, n):
    one = next(x for x in counted.read_counted() if (x.optimizer, x.rows, x.columns) == ("muon", m, n))
    assert one.products == muon(m, n) + 10 * min(m, n) ** 3 and one.decompositions == 0


def test_the_formula_of_htmuon_ns_by_hand():
    assert htmuon_ns(2, 3) == 20 * 2 * 3 * 2 + 4 * 2 * 9 + 6 * 4 * 5 * 27


def test_htmuon_ns_makes_the_products_of_its_definition():
    """Newton-Schulz, the Gram matrix, O' O'', and four roots with 3 T - 3 products each."""
    m, n = 512, 1376
    one = next(x for x in counted.read_counted() if (x.optimizer, x.rows, x.columns) == ("htmuon_ns", m, n))
    assert one.products == muon(m, n) + 10 * m**3 + 4 * m * n**2 + 4 * 12 * 2 * n**3


def test_the_last_row_is_the_sum_over_the_model():
    section = make_table(View(None, "published")).sections[0]
    *rows, total = section.rows
    for column in range(2, len(section.columns)):
        times = sum(row[1].value * row[column].value for row in rows)
        assert total[column].value == pytest.approx(times)


def test_the_table_needs_no_store():
    text = render(make_table(View(None, "published")), "md")
    assert "### c4, llama-60m" in text and "512 x 1376" in text and "10 r^3" in text


def test_two_shapes_are_counted_anew():
    kept = [one for one in counted.read_counted() if (one.model, one.optimizer) == ("llama-nano-60m", "muon")]
    assert list(count_updates("pydocs", "llama-nano-60m", "muon")) == kept


@pytest.mark.slow
def test_the_file_is_what_the_code_counts():
    # In a process of its own: here `nano` has language models, whose counts are kept elsewhere.
    done = subprocess.run([sys.executable, "-m", "docs.counted_updates"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
