"""Which runs a figure reports of an optimizer, and which settings are its winner's neighbours."""

from htbench.harness.store.points import REPLICATE
from htbench.results.compare.edges import find_candidates_along
from htbench.results.compare.select import OPTIMIZER, choose
from htbench.results.figures.pictures import format_span
from htbench.results.frames.load import load_rows


def test_replicas_are_reported_and_a_row_without_any_says_why(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.9, 0.4))
    bench.add("digits", "muon", 0.04, metrics=make.image(0.8, 0.4))
    keys = [
        bench.add("digits", "muon", 0.02, stage=REPLICATE, seed=seed, metrics=make.image(0.9, 0.4))
        for seed in (1, 2)
    ]
    bench.add("digits", "adamw", 0.02, metrics=make.image(0.9, 0.4))
    bench.add("digits", "sgdm", 0.3, state="diverged", steps=3, curve=False)
    muon, adamw, sgdm = choose(load_rows(bench.write()), OPTIMIZER)
    assert [run["key"] for run in muon.reported] == keys and muon.state == adamw.state == "completed"
    assert (adamw.reported, sgdm.reported, sgdm.state) == ([], [], "diverged")
    assert [muon.tried, adamw.tried] == [2, 1]


def test_with_the_papers_protocol_the_search_run_is_reported(bench, make):
    base = {"protocol": "paper"}
    key = bench.add("digits", "muon", 0.02, base=base, metrics=make.image(0.9, 0.4))
    bench.add("digits", "muon", 0.04, base=base, metrics=make.image(0.8, 0.4))
    (muon,) = choose(load_rows(bench.write()), OPTIMIZER)
    assert [run["key"] for run in muon.reported] == [key]


def test_neighbours_differ_in_one_setting_only(bench, make):
    for lr, p, accuracy in ((0.04, 0.1, 0.8), (0.01, 0.1, 0.7), (0.02, 0.1, 0.9), (0.04, 0.2, 0.89)):
        bench.add("digits", "htmuon", lr, p=p, metrics=make.image(accuracy, 0.4))
    bench.add("digits", "htmuon", 0.08, p=0.1, state="waiting")
    (htmuon,) = choose(load_rows(bench.write()), OPTIMIZER)
    found = [(one.value("lr"), one.value("p")) for one in find_candidates_along(htmuon, "lr")]
    assert found == [(lr, 0.1) for lr in (0.01, 0.02, 0.04, 0.08)]


def test_spans_in_words():
    assert (format_span([3]), format_span([3, 3]), format_span([2, 5, 3])) == ("3", "3", "2-5")
