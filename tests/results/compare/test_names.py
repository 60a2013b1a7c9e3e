"""Rows are what they are called: which parameters a rule has, one rule twice, settings that do nothing."""

import pytest

from htbench.harness.show.emit import as_text
from htbench.harness.store.points import REPLICATE
from htbench.results.compare.judge import Kind
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.page import page
from htbench.results.tables.answer import answers
from htbench.results.tables.ledger import make_ledger
from htbench.results.tables.registry import GENERAL

LOSSES = {"muon": (3.00, 3.01, 3.02), "adamw": (3.30, 3.31, 3.325), "adam": (3.31, 3.32, 3.325)}


def contest(bench, make, losses, workload="pydocs", **hyper):
    """Optimizers with these test losses on fresh seeds; a name may be that of a row of `hyper`."""
    for name, values in losses.items():
        own = hyper.get(name, {})
        bench.add(workload, name, 0.02, metrics=make.text(3.0), **own)
        for seed, loss in enumerate(values, start=1):
            bench.add(workload, name, 0.02, stage=REPLICATE, seed=seed, metrics=make.text(loss), **own)
    return bench.write()


def section(store):
    [found] = GENERAL["main_result"](View(load_rows(store), store=store)).sections
    return found


def dangers(store, kind):
    [found] = answers(load_rows(store), store)
    return [str(note) for note in found.dangers if note.kind == f"danger_{kind}"]


# --- one rule twice ---


def test_adam_without_decay_is_adamw_and_one_of_them_has_a_verdict(bench, make):
    off = {"weight_decay": 0}
    [found] = answers(load_rows(contest(bench, make, LOSSES, adam=off, adamw=off)))
    assert [(place.name, place.rank, place.kind) for place in found.places] == [
        ("muon", "1", Kind.BEST),
        ("adamw", "2", Kind.WORSE),
        ("adam", "", None),
    ]
    assert found.verdict["names"] == ["adamw"], "not two results"
    assert found.places[2].value.number() is not None, "nothing is lost"
    assert [str(note) for note in found.dangers if note.kind == "danger_twin"] == [
        "adam at weight_decay 0 is adamw, bit for bit: no result and no rank of its own"
    ]


@pytest.mark.parametrize(
    ("adam", "adamw"),
    [
        ({"weight_decay": 0}, {"weight_decay": 0.1}),
        ({"weight_decay": 0.01}, {"weight_decay": 0}),
        ({"weight_decay": 0, "betas": (0.9, 0.95)}, {"weight_decay": 0}),
        ({"weight_decay": 0}, {"weight_decay": 0, "groups.embedding.lr": 0.1}),
    ],
    ids=["decay of adamw", "decay of adam", "betas", "groups"],
)
def test_other_settings_make_another_result_of_it(bench, make, adam, adamw):
    [found] = answers(load_rows(contest(bench, make, LOSSES, adam=adam, adamw=adamw)))
    assert [place.rank for place in found.places] == ["1", "2=", "2="]
    assert found.verdict["names"] == ["adamw", "adam"]


def test_adam_alone_has_its_rank(bench, make):
    losses = {name: LOSSES[name] for name in ("muon", "adam")}
    [found] = answers(load_rows(contest(bench, make, losses, adam={"weight_decay": 0})))
    assert [place.rank for place in found.places] == ["1", "2"]


# --- which parameters a rule has ---

ALL = "muon and htmuon on all matrices, embedding and head included, AdamW at aux_lr 0.004 on the rest"
THREE = LOSSES | {"htmuon": (3.005, 3.012, 3.023)}


def test_rows_of_one_routing_share_a_line_that_does_not_warn(bench, make):
    store = contest(bench, make, THREE)
    shown = section(store)
    told = [note for note in shown.notes if note.kind == "routing"]
    assert [str(note) for note in told] == [f"What each matrix rule trains: {ALL}."]
    assert [str(note) for note in shown.brief.footer if note.kind == "routed"] == [ALL]
    assert dangers(store, "routing_unlike") == []
    report = GENERAL["main_result"](View(load_rows(store), store=store))
    for form in ("", "md", "json", "html"):
        assert "embedding and head included" in as_text([report], form), form
    assert "embedding and head included" in page.write(View(load_rows(store), store=store), {})


def test_rows_that_differ_in_it_are_a_danger_and_no_setting_of_unknown_meaning(bench, make):
    hidden = {"muon": {"routing": "hidden", "aux_lr": 0.01}}
    store = contest(bench, make, THREE | {"mars": (3.4, 3.41, 3.42)}, **hidden)
    [line] = dangers(store, "routing_unlike")
    assert "muon on the hidden matrices only, AdamW at aux_lr 0.01 on the rest" in line
    assert "htmuon and mars on all matrices, embedding and head included" in line
    assert not any("routing" in line for line in dangers(store, "fixed_unlike"))
    assert not any("routing" in line for line in dangers(store, "fixed_not_default"))
    assert not section(store).brief.footer[0].kind == "routed"


def test_no_auxiliary_rate_is_told_of_a_rule_without_one(bench, make):
    losses = {"muon": LOSSES["muon"], "galore": LOSSES["adamw"]}
    store = contest(bench, make, losses, muon={"routing": "hidden"}, galore={"rank": 8})
    assert dangers(store, "routing_unlike") == []
    [line] = [str(note) for note in section(store).brief.footer if note.kind == "routed"]
    ours = "muon on the hidden matrices only, AdamW at aux_lr 0.004 on the rest"
    assert sorted(line.split("; ")) == ["galore on the hidden matrices only", ours]


def test_groups_with_settings_of_their_own_are_told_too(bench, make):
    own = {"groups.matrices.lr": 0.1, "groups.head.optimizer": "sgdm"}
    store = contest(bench, make, {name: LOSSES[name] for name in ("muon", "adamw")}, adamw=own)
    [line] = dangers(store, "routing_unlike")
    assert "adamw on all parameters, with settings of their own for head (by sgdm) and matrices" in line


def test_without_a_matrix_rule_nothing_is_said(bench, make):
    store = contest(bench, make, {name: LOSSES[name] for name in ("adamw", "adam")})
    assert not {note.kind for note in section(store).notes} & {"routing", "routing_unlike"}


# --- settings that do nothing ---


@pytest.mark.parametrize(
    ("name", "hyper", "base", "words"),
    [
        (
            "galore",
            {},
            {"steps": 400},
            "rank 128 projects nothing away in matrices 48 wide: Adam in a rotated basis, at 0.25",
        ),
        ("galore", {"rank": 48}, {"steps": 400}, "rank 48 projects nothing away"),
        ("galore", {"rank": 16}, {"steps": 400}, ""),
        (
            "galore",
            {"rank": 16, "update_gap": 200},
            {"steps": 200},
            "update_gap 200 is not below the 200 steps",
        ),
        (
            "cosmos",
            {},
            {},
            "rank 64 covers matrices 48 wide: Adam in a rotated basis, with steps of a fixed norm",
        ),
        ("cosmos", {}, {"model": "llama-micro"}, ""),
        ("htmuon_stream", {"rank": 64}, {}, "rank 64 leaves nothing out"),
        ("htmuon_stream", {}, {}, ""),
        ("soap", {}, {}, ""),
        (
            "soap",
            {"precondition_frequency": 500},
            {},
            "precondition_frequency 500 is not below the 200 steps",
        ),
        ("htmuon", {"interval": 300}, {}, "interval 300 is not below the 200 steps"),
        ("sophia", {"curvature_interval": 200}, {}, "curvature_interval 200 is not below the 200 steps"),
        ("sophia", {"curvature_interval": 200, "sign_momentum": True}, {}, ""),
        ("muon", {}, {}, ""),
    ],
)
def test_a_setting_that_does_nothing_is_a_danger_of_its_row(bench, make, name, hyper, base, words):
    own = {name: {**hyper, "base": base}, "adamw": {"base": base}}
    store = contest(bench, make, {name: (3.1, 3.11, 3.12), "adamw": LOSSES["adamw"]}, **own)
    [found] = answers(load_rows(store), store)
    told = [str(note) for note in found.dangers if note.kind.startswith("danger_idle")]
    assert len(told) == bool(words)
    assert all(line.startswith(f"{name}: ") and words in line for line in told)


def test_what_a_record_says_of_its_reach_is_told(bench, make):
    own = {
        "mars": {"environment": {"reach": {"percent": 3.2}}},
        "adamw": {"environment": {"reach": "forged"}},
    }
    store = contest(bench, make, {"mars": (3.1, 3.11, 3.12), "adamw": LOSSES["adamw"]}, **own)
    assert dangers(store, "little_reach") == [
        "mars: its rule trains 3.2 % of the entries of all matrices and kernels in its own way"
    ]


@pytest.mark.parametrize(("rank", "reaches"), [(128, False), (8, True)])
def test_the_ledger_marks_a_rule_that_is_another_one_here(bench, make, rank, reaches):
    base = {"task": "pydocs", "model": "llama-nano-60m", "steps": 50}
    own = {"sweep": "nano-optimizer_variants", "base": base, "curve": False}
    for name, level, more in (
        ("htmuon", 3.0, {"p": 0.125}),
        ("galore", 3.5, {"rank": rank, "update_gap": 5}),
    ):
        bench.add("pydocs", name, 0.02, metrics=make.text(4.0), **own, **more)
        for seed in range(1000, 1003):
            metrics = make.text(level + seed % 3 * (0.01 if name == "galore" else 0.013), test=0)
            bench.add("pydocs", name, 0.02, stage=REPLICATE, seed=seed, metrics=metrics, **own, **more)
    store = bench.write()
    (report,) = make_ledger(View(load_rows(store), store=store))
    (row,) = [row for one in report.sections for row in one.rows if row[0].value == "galore" and row[6].value]
    assert row[-1].value == "worse"
    assert [note.kind for note in row[-2].notes] == ([] if reaches else ["idle_galore"])
