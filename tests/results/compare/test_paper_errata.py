"""Slips of the paper, as data: every one touches a number."""

from htbench.harness.paper import reported
from htbench.results.compare.paper_errata import note_line, note_rate


def test_every_slip_touches_a_published_number():
    lines = reported.everything()
    texts = [slip["text"] for slip in reported.rows("slips")]
    assert {str(note) for line in lines for note in note_line(line)} == set(texts)
    assert len(set(texts)) == len(texts) > 15


def test_slips_name_the_right_cells():
    by_printed = {(line.table, line.row, line.printed): line for line in reported.everything()}
    muon = by_printed["p_grid_cifar", "htmuon p=0", "79.67"]
    assert any("79.85 at 0.03" in str(note) for note in note_line(muon))
    best = by_printed["p_grid_cifar", "htmuon", "95.63"]
    assert note_rate(best) == () and len(note_line(best)) == 1
    assert any("0.67 h" in str(note) for note in note_line(by_printed["wall_clock", "muon", "0.67"]))
