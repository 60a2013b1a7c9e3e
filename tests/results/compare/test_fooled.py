"""The ways in which a table was fooled: a store for each."""

import dataclasses
import json
import shutil

import pytest

from htbench.harness.show import tidy
from htbench.harness.show.report import Report
from htbench.harness.store.points import DROPPED, REPLICATE
from htbench.optimizers import ZOO
from htbench.results.compare.view import View
from htbench.results.figures.caveats import add_caveats
from htbench.results.figures.kinds import MARK, csv_text
from htbench.results.frames.load import load_rows
from htbench.results.tables.answer import answers
from htbench.results.tables.registry import TABLES
from tests.helpers.frames import plot
from tests.helpers.records import change_record
from tests.helpers.rendering import render

lr_curve, seed_spread = plot("lr_curve", "seed_spread")


def table(bench, form="md", name="main_result"):
    return render(TABLES[name](View(load_rows(bench.write()))), form)


def lines(bench, name="main_result"):
    """The rows of a table in JSON, by their optimizer."""
    [report] = json.loads(table(bench, "json", name))
    [section] = report["sections"]
    heads = [column["name"] for column in section["columns"]]
    return {row[0]["value"]: dict(zip(heads, row, strict=True)) for row in section["rows"]}


def bold(bench):
    return [name for name, cells in lines(bench).items() if any(cell["bold"] for cell in cells.values())]


def contest(bench, make, search, replicas, workload="digits", **hyper):
    """Optimizers with the validation accuracy at each rate and the images right on each fresh seed."""
    for optimizer, rates in search.items():
        own = hyper.get(optimizer, {})
        for rate, level in rates.items():
            bench.add(workload, optimizer, rate, metrics=make.image(level, 0.4), **own)
        best = max(rates, key=rates.get)
        for seed, right in enumerate(replicas[optimizer], start=1000):
            metrics = make.image(0.95, 0.4, test=right / 299) | {"test_samples": 299}
            bench.add(workload, optimizer, best, stage=REPLICATE, seed=seed, metrics=metrics, **own)


MUON = {0.03: 0.92, 0.06: 0.95, 0.12: 0.91}


def test_1_fixed_settings_that_are_no_defaults_are_seen(bench, make):
    contest(
        bench,
        make,
        {"muon": MUON, "adamw": {0.003: 0.1, 0.01: 0.2, 0.03: 0.1}},
        {"muon": [280, 281, 279], "adamw": [30, 31, 32]},
        adamw={"betas": [0, 0.5], "weight_decay": 10},
    )
    text = table(bench)
    assert "betas [0,0.5] (default [0.9,0.999])" in text and "weight_decay 10 (default 0.1)" in text
    assert "weight_decay 0.1 of muon, 10 of adamw" in text
    assert "fixed_not_default" in lines(bench)["adamw"]["optimizer"]["kinds"]
    assert "fixed_not_default" in table(bench, "csv"), "marks are a field of CSV"


def test_1_a_named_group_of_one_row_is_seen(bench, make):
    """A rival's vectors at a rate that ruins it: what a group does not inherit is told."""
    contest(
        bench,
        make,
        {"adamw": {0.003: 0.9, 0.01: 0.95, 0.03: 0.91}, "muon": MUON},
        {"adamw": [280, 281, 279], "muon": [30, 31, 32]},
        muon={"groups.vectors.lr": 0.5},
    )
    assert "not the default: groups.vectors.lr 0.5 (default 0.03)" in table(bench)


@pytest.mark.parametrize(
    ("own", "parts"),
    [
        ({"muon": {"aux_lr": 0.01}, "htmuon": {"aux_lr": 0.01}}, None),
        ({name: {"groups.vectors.lr": 0.5} for name in ("muon", "htmuon")}, [("split_fixed", "htmuon muon")]),
        (
            {"muon": {"groups.vectors.lr": 0.5}, "htmuon": {"groups.vectors.lr": 0.1}},
            [("split_fixed", "htmuon"), ("split_fixed", "muon")],
        ),
        (
            {"muon": {"aux_lr": (0.1, 0.2)}, "htmuon": {}},
            [("split_fixed", "htmuon"), ("split_tuned", "muon")],
        ),
    ],
    ids=["default", "shared", "unlike", "tuned"],
)
def test_1_whether_the_auxiliary_split_was_tuned_is_told(bench, make, own, parts):
    for optimizer, more in own.items():
        for rate, accuracy in MUON.items():
            listed = more.get("aux_lr") if isinstance(more.get("aux_lr"), tuple) else (None,)
            for at, aux in enumerate(listed):
                given = more | ({"aux_lr": aux} if aux else {})
                bench.add("digits", optimizer, rate, metrics=make.image(accuracy - at / 100, 0.4), **given)
    [section] = TABLES["main_result"](View(load_rows(bench.write()))).sections
    found = [note for note in section.notes if note.kind == "split"]
    told = [sorted((part.kind, " ".join(sorted(part["names"]))) for part in note["parts"]) for note in found]
    assert told == ([parts] if parts else [])


def dropped(bench, sweep, wanted):
    """What `--replace` leaves of a plan: the points that are not wanted any more stay as dropped ones."""
    bench.points[sweep] = [
        point if wanted(point) else dataclasses.replace(point, stage=DROPPED) for point in bench.points[sweep]
    ]


def short_lines(store, sweeps):
    return [str(note) for own in answers(load_rows(store, sweeps), store) for note in own.dangers]


@pytest.mark.parametrize("how", ["replaced", "another sweep", "another replica"])
def test_14_seeds_that_were_chosen_after_a_look_are_told(bench, make, how):
    """Three of six replicas in the table, the better ones; the others are in the store all the same."""
    good, poor = [285, 286, 287], [270, 271, 272]
    rivals = {"adamw": {0.003: 0.9, 0.01: 0.94, 0.03: 0.91}}
    if how == "replaced":
        replicas = {"muon": good + poor, "adamw": [279, 280, 281]}
        contest(bench, make, {"muon": MUON} | rivals, replicas)
        dropped(bench, "demo-digits", lambda p: p.overrides["seed"] < 1003)
    else:
        contest(bench, make, {"muon": MUON} | rivals, {"muon": good, "adamw": [279, 280, 281]})
        base = {"replica": "b"} if how == "another replica" else {}
        other = {"sweep": "before", "base": base}
        bench.add("digits", "muon", 0.06, seed=7, metrics=make.image(0.95, 0.4), **other)
        for seed, right in enumerate(poor, start=2000):
            metrics = make.image(0.95, 0.4, test=right / 299)
            bench.add("digits", "muon", 0.06, stage=REPLICATE, seed=seed, metrics=metrics, **other)
    store = bench.write()
    told = "muon: 3 more fresh runs of its setting in the store, mean 90.64, left out"
    assert told in short_lines(store, ["demo-digits"])
    assert "fresh_left_out" in View(load_rows(store, ["demo-digits"])).caveats.of(
        [bench.points["demo-digits"][3].key]
    )
    [section] = TABLES["main_result"](View(load_rows(store, ["demo-digits"]))).sections
    tried = section.rows[0][[column.name for column in section.columns].index("tried")]
    assert tried.value == 3, "they are no further settings"
    everything = "\n".join(short_lines(store, None))
    assert ("left out" in everything) is (how != "another sweep"), "a table reports them"


def test_14_a_row_that_was_dropped_after_a_look_is_named(bench, make):
    search = {"muon": MUON, "adamw": {0.003: 0.9, 0.01: 0.94, 0.03: 0.91}, "soap": {0.003: 0.93, 0.01: 0.96}}
    contest(bench, make, search, {name: [280, 281, 279] for name in search})
    told = "soap was in this sweep before: 5 runs in the store, no row here"
    assert told not in short_lines(bench.write(), ["demo-digits"])
    dropped(bench, "demo-digits", lambda p: p.block != "soap")
    for sweeps in (["demo-digits"], None):
        assert told in short_lines(bench.write(), sweeps)
        [panel, *_] = lr_curve(load_rows(bench.write(), sweeps), bench.store)
        assert set(panel.frame["optimizer"]) == {"muon", "adamw"}
    assert "row_dropped" in table(bench, "json") and "row_dropped" in table(bench, "csv")


def dangers(bench):
    """The short lines of the first screen, by kind, in words."""
    [found] = answers(load_rows(bench.write()))
    return [(note.kind.removeprefix("danger_"), str(note)) for note in found.dangers]


EVEN = {"muon": [280, 281, 279], "adamw": [280, 281, 279]}
ADAMW = {0.003: 0.91, 0.01: 0.95, 0.03: 0.9}


@pytest.mark.parametrize(
    ("crippled", "told"),
    [
        ({"aux_lr": 1e-7}, "muon: not the default: aux_lr 1e-07 (default 0.03)"),
        ({"aux_weight_decay": 5}, "muon: not the default: aux_weight_decay 5 (default none)"),
        ({"base": {"grad_clip": 1e-3}}, "muon: not the default: grad_clip 0.001 (default none)"),
        ({"base": {"schedule.floor": 1.0}}, "muon: not the default: schedule.floor 1 (default 0.1)"),
    ],
)
def test_1_a_fixed_setting_without_a_default_is_seen(bench, make, crippled, told):
    contest(bench, make, {"muon": MUON, "adamw": ADAMW}, EVEN, muon=crippled)
    assert ("fixed_not_default", told) in dangers(bench)
    name, value = told.rpartition("default: ")[2].split(" (")[0].split(" ")
    unlike = "schedule" in name or name == "grad_clip"  # adamw has it, too, at its default
    usual = {"grad_clip": "none", "schedule.floor": "0.1"}.get(name)
    assert (f"{name} {value} of muon, {usual} of adamw" in table(bench)) is unlike


def test_1_none_beside_a_value_is_a_choice_and_an_axis(bench, make):
    """A grid of none and 1 is searched, and the winner's none is a value."""
    for optimizer, rates in {"muon": MUON, "adamw": ADAMW}.items():
        for rate, level in rates.items():
            for clip in (None, 1.0) if optimizer == "muon" else (None,):
                metrics = make.image(level - 0.1 * (clip or 0), 0.4)
                bench.add("digits", optimizer, rate, metrics=metrics, base={"grad_clip": clip})
    assert lines(bench)["muon"]["grad_clip"]["value"] == "none"
    assert ("axis_fixed", "grad_clip was searched for muon alone, others have none of adamw") in dangers(
        bench
    )


OUTSIDE = {f"optimizer.{name}": param.default for name, param in ZOO["adamw"].params.items()}


@pytest.mark.parametrize(
    ("own", "defaults", "told"),
    [
        ({}, {}, None),
        ({"betas": [0.8, 0.9]}, {"optimizer.betas": [0.8, 0.9]}, None),
        ({"betas": [0, 0.5]}, {"optimizer.betas": [0.8, 0.9]}, "betas [0,0.5] (default [0.8,0.9])"),
        ({}, {"optimizer.clip": 1.0, "optimizer.eps": None}, "eps 1e-08 (default none)"),
        ({"weight_decay": 5}, {"optimizer.weight_decay": 0.5}, "weight_decay 5 (default 0.5)"),
    ],
)
def test_1_a_class_from_outside_is_compared_with_its_constructor(bench, make, own, defaults, told):
    """Its words mean what they mean in its class: another class of ours may have them, too."""
    noted = {"defaults": {"optimizer.weight_decay": 0.1} | OUTSIDE | defaults, "switches": False}
    mine = own | {"environment": {"outside": noted}}
    seeds = {"my:Ema": [280, 281, 279], "adam": [280, 281, 279]}
    contest(bench, make, {"my:Ema": ADAMW, "adam": ADAMW}, seeds, **{"my:Ema": mine})
    found = [words for kind, words in dangers(bench) if kind == "fixed_not_default"]
    assert found == ([f"my:Ema: not the default: {told}"] if told else [])
    assert "of my:Ema, [0.9,0.999] of adam" not in table(bench), "the betas of another class"


def test_1_an_old_record_of_a_class_from_outside_shows_its_settings(bench, make):
    seeds = {"my:Ema": [280, 281, 279], "muon": [280, 281, 279]}
    contest(bench, make, {"my:Ema": ADAMW, "muon": MUON}, seeds, **{"my:Ema": {"betas": [0, 0.5]}})
    told = "my:Ema: no record of the defaults of its class, notes list its settings"
    assert ("fixed_unrecorded", told) in dangers(bench)
    assert "fixed, at defaults or not, which its record does not say: betas [0,0.5]" in table(bench)


def test_1_what_is_common_and_far_from_the_default_stands_on_the_first_screen(bench, make):
    common = {"weight_decay": 5, "base": {"schedule.warmup": 0.3, "grad_clip": 1.0}}
    contest(bench, make, {"muon": MUON, "adamw": ADAMW}, EVEN, muon=common, adamw=common)
    assert [words for kind, words in dangers(bench) if kind.startswith("fixed")] == [
        "in all rows, far from the default: weight_decay 5 (default 0.1)"
    ]
    assert "grad_clip 1 (default none) and schedule.warmup 0.3 (default 0.1)" in table(bench)


@pytest.mark.parametrize(("other", "seen"), [("float32", []), ("bfloat16", [("fixed_unlike", "ns_dtype")])])
def test_1_what_our_own_files_fix_is_no_danger_where_rows_are_alike(bench, make, other, seen):
    own = {"muon": {"ns_dtype": "float32"}, "normuon": {"ns_dtype": other}}
    seeds = {"muon": [280, 281, 279], "normuon": [280, 281, 279], "adamw": [280, 281, 279]}
    contest(bench, make, {"muon": MUON, "normuon": MUON, "adamw": ADAMW}, seeds, **own)
    assert lines(bench)["muon"]["optimizer"]["kinds"] == ["fixed_usual"]
    assert [(kind, "ns_dtype") for kind, words in dangers(bench) if "ns_dtype" in words] == seen


@pytest.mark.parametrize(
    ("search", "told"),
    [
        ({"muon": MUON, "adamw": {0.003: 0.91, 0.01: 0.95, 0.06: 0.9}}, None),
        (
            {"muon": MUON, "adamw": {1e-9: 0.1, 0.01: 0.95, 10: 0.1}},
            "lr was searched far more coarsely for adamw than for muon",
        ),
    ],
)
def test_4_a_range_far_wider_than_a_rival_has_is_seen(bench, make, search, told):
    contest(bench, make, search, EVEN)
    assert [words for kind, words in dangers(bench) if kind.startswith("axis")] == ([told] if told else [])
    assert (
        "3 values from 1e-09 to 10 for adamw; 3 values from 0.03 to 0.12 for muon" in table(bench)
    ) is bool(told)


def test_4_an_axis_of_one_row_alone_is_seen(bench, make):
    for optimizer, rates in {"muon": MUON, "adamw": ADAMW}.items():
        for rate, level in rates.items():
            for warmup in (0.1, 0.2) if optimizer == "muon" else (0.1,):
                metrics = make.image(level - warmup, 0.4)
                bench.add("digits", optimizer, rate, metrics=metrics, base={"schedule.warmup": warmup})
    told = "schedule.warmup was searched for muon alone, others have 0.1 of adamw"
    assert [own for own in dangers(bench) if own[0].startswith("axis")] == [("axis_fixed", told)]


@pytest.mark.parametrize("name", ["schedule_free", "my:Free"])
def test_4_weights_averaged_by_the_optimizer_are_seen(bench, make, name):
    own = {"my:Free": {"environment": {"outside": {"defaults": {}, "switches": True}}}}
    schedule = {"base": {"schedule.name": "constant"}}
    seeds = {name: [280, 281, 279], "muon": [280, 281, 279]}
    contest(bench, make, {name: ADAMW, "muon": MUON}, seeds, **{name: schedule | own.get(name, {})})
    told = f"{name} is evaluated at a mean of the weights, others at their last ones"
    assert ("averaged_in_some", told) in dangers(bench)


SEVEN = {0.015: 0.9, 0.02: 0.91, 0.04: 0.93, 0.08: 0.93}


def test_3_what_other_sweeps_tried_counts_in_the_budget(bench, make):
    """The sweep of three rates is what is left of one of seven: no matter whose file asked for them."""
    contest(bench, make, {"muon": MUON}, {"muon": [280, 281, 279]})
    for rate, level in SEVEN.items():
        bench.add("digits", "muon", rate, sweep="before", metrics=make.image(level, 0.4))
    assert lines(bench)["muon"]["tried"]["value"] == 7
    shown = load_rows(bench.write(), ["demo-digits"])
    [section] = TABLES["main_result"](View(shown)).sections
    tried = section.rows[0][[column.name for column in section.columns].index("tried")]
    assert tried.value == 7 and "tried_elsewhere" in [note.kind for note in tried.notes]
    assert "3 of 7" in render(TABLES["main_result"](View(shown)), "md")


def test_3_runs_whose_plan_is_gone_count_too(bench, make):
    contest(bench, make, {"muon": MUON}, {"muon": [280, 281, 279]})
    for rate, level in SEVEN.items():
        bench.add("digits", "muon", rate, sweep="before", metrics=make.image(level, 0.4))
    store = bench.write()
    shutil.rmtree(store.root / "sweeps" / "before")
    [section, _] = TABLES["main_result"](View(load_rows(store))).sections
    text = render(Report("t", "", [section]), "md")
    assert "3 of 7" in text and "chosen among 7" not in text


def test_3_the_tables_of_the_paper_show_what_nobody_searched(bench, make):
    """Sweeps of the paper's experiments are found by their names: a crippled one must be seen to be that."""
    for optimizer, hyper in (("muon", {}), ("adamw", {"betas": [0, 0.5]})):
        run = {"sweep": "nano-main_result", "curve": False, **hyper}
        run["base"] = {"task": "pydocs", "model": "llama-nano-60m", "steps": 50}
        bench.add("pydocs", optimizer, 0.02, metrics=make.text(3.0), **run)
        for seed in range(1000, 1003):
            bench.add("pydocs", optimizer, 0.02, stage=REPLICATE, seed=seed, metrics=make.text(3.0), **run)
    assert "not the default: betas [0,0.5] (default [0.9,0.999])" in table(bench)


def test_7_a_sweep_that_is_left_out_still_makes_seeds_stale(bench, make):
    contest(bench, make, {"muon": MUON}, {"muon": [280, 281, 279]})
    bench.add("digits", "muon", 0.08, sweep="before", seed=1001, metrics=make.image(0.9, 0.4))
    bench.add("digits", "muon", 0.06, sweep="before", seed=1002, metrics=make.image(0.9, 0.4))
    for sweeps in (None, ["demo-digits"]):
        [section] = TABLES["main_result"](View(load_rows(bench.write(), sweeps))).sections
        text = render(Report("t", "", [section]), "md")
        assert "2 replicas share a seed with the search of sweep before: not counted" in text


# --- 2: a crippled grid ---

RIGHT = {"muon": [280, 281, 279], "adamw": [80, 81, 82]}


def edge_kind(bench, optimizer="adamw"):
    [edge] = [note for note in edges_of(bench, optimizer) if note.kind == "edge"]
    return edge["outlook"].kind if edge["outlook"] else ""


def edges_of(bench, optimizer):
    [section] = TABLES["main_result"](View(load_rows(bench.write()))).sections
    at = [column.name for column in section.columns].index("lr")
    return next(row[at].notes for row in section.rows if row[0].value == optimizer)


def test_2_nothing_is_bold_while_a_rival_may_be_better_beyond_its_grid(bench, make):
    """Muon 93.31 against 26.64 of AdamW over 3e-4 to 5e-4 was bold, and "would not change the winner"."""
    contest(bench, make, {"muon": MUON, "adamw": {3e-4: 0.2, 4e-4: 0.24, 5e-4: 0.26}}, RIGHT)
    assert bold(bench) == [] and edge_kind(bench) == "outlook_open"
    assert lines(bench)["adamw"]["verdict"]["value"] == "worse", "as far as it was tried"


HOLES = [{1e-4: 0.2, 5e-4: 0.26, 3.0: 0.1}, {1e-7: 0.1, 4.999e-4: 0.25, 5e-4: 0.26, 5.001e-4: 0.25, 3.0: 0.1}]


@pytest.mark.parametrize("rates", HOLES, ids=["holes", "padded"])
def test_2_nothing_is_bold_while_a_rival_may_be_better_in_a_hole_of_its_grid(bench, make, rates):
    """AdamW at [0.0001, 0.0005, 3.0] lost to Muon in bold and without a mark; padding did not help it."""
    contest(bench, make, {"muon": MUON, "adamw": rates}, RIGHT)
    assert bold(bench) == [] and edge_kind(bench) == "outlook_open"
    [edge] = [note for note in edges_of(bench, "adamw") if note.kind == "edge"]
    assert (edge["where"].kind, edge["where"]["sides"]) == ("edge_hole", ["above", "below"])
    assert edge["following"]["values"][0] == "0.001", "the line to add is named"


def test_2_a_parabola_may_exclude_a_hole(bench, make):
    flat = {0.003 * 2**octave: 0.27 - 0.01 * (octave - 2.1) ** 2 for octave in (-3, 0, 2, 5, 7)}
    contest(bench, make, {"muon": MUON, "adamw": flat}, RIGHT)
    assert edge_kind(bench) == "outlook_excluded" and bold(bench) == ["muon"]


def test_3_rates_that_are_alike_count_once(bench, make):
    contest(bench, make, {"muon": MUON, "adamw": HOLES[1]}, RIGHT)
    found = lines(bench)
    assert found["adamw"]["tried"]["value"] == 3 == found["muon"]["tried"]["value"]
    bench.add("digits", "adamw", 5.002e-4, sweep="before", metrics=make.image(0.2, 0.4))
    assert lines(bench)["adamw"]["tried"]["value"] == 3, "whatever sweep tried them"
    bench.add("digits", "adamw", 5e-4, weight_decay=0.0, metrics=make.image(0.2, 0.4))
    bench.add("digits", "adamw", 5.001e-4, weight_decay=0.0, metrics=make.image(0.2, 0.4))
    assert lines(bench)["adamw"]["tried"]["value"] == 4, "with all else as it is"


def test_2_unless_a_parabola_over_its_rates_says_that_it_can_not(bench, make):
    flat = {0.003 * 2**octave: 0.27 - 0.01 * (octave + 0.1) ** 2 for octave in range(5)}
    contest(bench, make, {"muon": MUON, "adamw": flat}, RIGHT)
    assert edge_kind(bench) == "outlook_excluded" and bold(bench) == ["muon"]


def test_2_a_parabola_may_also_say_that_it_can(bench, make):
    rising = {0.003 * 2**octave: 0.1 + 0.15 * octave - 0.004 * octave**2 for octave in range(5)}
    contest(bench, make, {"muon": MUON, "adamw": rising}, RIGHT)
    assert edge_kind(bench) == "outlook_may" and bold(bench) == []


def test_2_the_best_row_itself_may_lie_at_an_edge(bench, make):
    contest(
        bench, make, {"muon": {0.03: 0.95, 0.06: 0.9}, "adamw": {0.003: 0.2, 0.01: 0.3, 0.03: 0.2}}, RIGHT
    )
    assert edge_kind(bench, "muon") == "outlook_leads" and bold(bench) == ["muon"]


def test_2_a_row_alone_has_no_outlook(bench, make):
    contest(bench, make, {"muon": {0.03: 0.95, 0.06: 0.9}}, RIGHT)
    assert edge_kind(bench, "muon") == ""


# --- 5, 6: hopeless rows, and pairs of few seeds ---


def losses(bench, make, **rows):
    for optimizer, values in rows.items():
        bench.add("pydocs", optimizer, 0.02, metrics=make.text(3.0))
        for seed, loss in enumerate(values, start=1000):
            bench.add("pydocs", optimizer, 0.02, stage=REPLICATE, seed=seed, metrics=make.text(loss, test=0))


CLOSE = {
    "muon": [3.000, 3.021, 3.010],
    "adamw": [3.041, 3.064, 3.050],
    "sgdm": [3.052, 3.070, 3.063],
    "normuon": [3.049, 3.073, 3.058],
    "mars": [3.060, 3.079, 3.072],
}
HOPELESS = {
    "sophia": [3.6, 3.9, 3.7],
    "lion": [4.5, 4.1, 4.4],
    "cosmos": [5.0, 5.9, 5.1],
    "soap": [4.0, 4.9, 4.2],
}


def test_5_the_best_of_five_rows_is_found_with_three_seeds(bench, make):
    losses(bench, make, **CLOSE)
    assert bold(bench) == ["muon"]


def test_5_hopeless_rows_change_nothing(bench, make):
    losses(bench, make, **CLOSE)
    before = lines(bench)
    losses(bench, make, **HOPELESS)
    after = lines(bench)
    assert bold(bench) == ["muon"]
    assert after["sophia"]["verdict"]["value"] == "worse"
    for name in CLOSE:
        assert after[name]["verdict"] == before[name]["verdict"]
        for figure in ("gap_nats_low95", "gap_nats_high95"):
            old, new = before[name][figure]["value"], after[name][figure]["value"]
            assert old == new or abs(old - new) < 0.004


def test_6_two_equal_rows_have_no_winner_by_chance(bench, make):
    losses(bench, make, muon=[3.00, 3.03, 3.01], adamw=[3.02, 3.04, 3.04])
    found = lines(bench)
    assert "p_best" not in found["muon"]
    assert [found[name]["rank"]["value"] for name in ("muon", "adamw")] == ["1=", "1="] and bold(bench) == []


# --- 8: marks are fields everywhere ---


def test_8_marks_and_bold_are_fields_of_csv_and_parquet(bench, make):
    right = {"htmuon_stream": RIGHT["muon"], "adamw": RIGHT["adamw"]}
    search = {"htmuon_stream": MUON, "adamw": {3e-4: 0.2, 4e-4: 0.24, 5e-4: 0.26}}
    contest(bench, make, search, right, htmuon_stream={"p": 0.125, "rank": 32})
    bench.add("digits", "htmuon_stream", 0.06, p=0.125, rank=16, metrics=make.image(0.2, 0.4))
    report = TABLES["main_result"](View(load_rows(bench.write())))
    found = {str(row["optimizer"]): row for row in tidy.rows(report)}
    assert (
        str(found["adamw"]["marks"]).split() == ["edge", "budget_unequal"]
        and found["htmuon_stream"]["bold"] == ""
    )
    for name in ("rank", "gap_points", "gap_points_low95", "gap_points_high95", "p_value", "verdict"):
        assert name in found["adamw"]
    names = [column.name for column in report.sections[0].columns if column.name]
    assert sorted(names) == sorted({*names, "p", "optimizer.rank"}), "no two of one name"


# --- 9: exact tests at the ends ---


def test_9_all_right_against_four_wrong_of_299_is_no_difference(bench, make):
    contest(bench, make, {"muon": MUON, "adamw": MUON}, {"muon": [299] * 3, "adamw": [295] * 3})
    row = lines(bench)["adamw"]
    assert bold(bench) == [] and row["verdict"]["value"] == "unknown" and row["p_value"]["value"] >= 0.12


# --- 11: looking twice ---


def test_11_replicas_added_after_a_look_need_a_clearer_gap(bench, make):
    values = {"muon": [3.000, 3.021, 3.010, 3.012], "adamw": [3.027, 3.049, 3.045, 3.031]}
    losses(bench, make, **values)
    once = lines(bench)["adamw"]
    for point in bench.points["demo-pydocs"]:
        if point.overrides["seed"] == 1003:
            bench.points["demo-pydocs"].remove(point)
            bench.points["demo-pydocs"].append(dataclasses.replace(point, look=1))
    twice, text = lines(bench)["adamw"], table(bench)
    width = [row["gap_nats_high95"]["value"] - row["gap_nats_low95"]["value"] for row in (once, twice)]
    assert width[1] > 1.1 * width[0] and "Replicas were added after 1 look at the table" in text


# --- 12: other test items ---


def test_12_rows_scored_on_other_items_are_not_compared(bench, make):
    losses(bench, make, muon=[3.00, 3.03, 3.01], adamw=[3.40, 3.42, 3.43])
    assert bold(bench) == ["muon"]
    store = bench.write()
    for point in bench.points["demo-pydocs"]:
        which = "a" * 16 if point.block == "muon" else "b" * 16
        change_record(
            store, point.key, lambda record, which=which: dataclasses.replace(record, items_digest=which)
        )
    [section] = TABLES["main_result"](View(load_rows(store))).sections
    names = [column.name for column in section.columns]
    assert "verdict" not in names and not any(cell.bold for row in section.rows for cell in row)
    assert section.mixtures


# --- 13: the noise of the search ---


def test_13_the_noise_of_the_search_widens_the_interval(bench, make):
    """A row that chose among five rates with one seed each knows less than one with a single setting."""
    values = {"muon": [3.000, 3.021, 3.010], "adamw": [3.027, 3.049, 3.045]}
    losses(bench, make, **values)
    before = lines(bench)["adamw"]
    for octave in (-2, -1, 1, 2):
        bench.add("pydocs", "adamw", 0.02 * 2**octave, metrics=make.text(3.0 + 0.012 * octave**2))
    after = lines(bench)["adamw"]
    assert after["gap_nats_low95"]["value"] < before["gap_nats_low95"]["value"]
    assert "the noise of the search that chose the settings" in table(bench)


def test_several_workloads_are_drawn_not_their_seeds(bench, make):
    """Better by all its seeds on two workloads of three is better on two of three."""
    for steps, lead in ((100, 0.05), (200, 0.06), (400, -0.02)):
        for optimizer, gap in (("muon", 0.0), ("adamw", lead)):
            run = {"base": {"steps": steps}, "curve": False, "sweep": f"of-{steps}"}
            bench.add("pydocs", optimizer, 0.02, metrics=make.text(3.0), **run)
            for seed in range(1000, 1003):
                text = make.text(3.0 + gap + (seed - 1000) / 1000, test=0)
                bench.add("pydocs", optimizer, 0.02, stage=REPLICATE, seed=seed, metrics=text, **run)
    for rate in (0.04, 0.08):  # on one workload the best rate of adamw is the first one
        bench.add(
            "pydocs", "adamw", rate, metrics=make.text(3.5), base={"steps": 100}, sweep="of-100", curve=False
        )
    rows = lines(bench, "workloads")
    assert {"edge"} == set(rows["adamw"]["optimizer"]["kinds"]) and not rows["muon"]["optimizer"]["kinds"]
    assert rows["adamw"]["gap_nats"]["value"] == pytest.approx(0.03) and rows["adamw"]["p"]["value"] > 0.2
    assert [rows[name]["best_on"]["value"] for name in ("muon", "adamw")] == [2, 1]


def test_8_figures_and_their_files_have_the_marks_of_tables(bench, make, tmp_path):
    contest(bench, make, {"muon": MUON, "adamw": {3e-4: 0.2, 4e-4: 0.24, 5e-4: 0.26}}, RIGHT)
    bench.add("digits", "muon", 0.24, state="waiting")
    frame = load_rows(bench.write())
    (panel,) = (add_caveats(panel, View(frame).caveats) for panel in seed_spread(frame, bench.store))
    by_optimizer = dict(zip(panel.frame["optimizer"], panel.frame["marks"], strict=True))
    assert by_optimizer == {"muon": "not_final", "adamw": "edge"}
    assert [str(note) for note in panel.about.facts[-2:]] == [
        "! best at an edge: adamw",
        "! not final: muon",
    ]
    assert csv_text({"seed_spread": [panel]}).splitlines()[0].endswith(",keys,marks,picture")
    other = bench.add(
        "digits", "muon", 0.06, stage=REPLICATE, seed=1003, metrics=make.image(0.9, 0.4), cpu="Other 2"
    )
    frame = load_rows(bench.write())
    (panel,) = (add_caveats(panel, View(frame).caveats) for panel in seed_spread(frame, bench.store))
    mean = panel.of(MARK)
    assert other in mean["keys"][mean["optimizer"] == "muon"].iloc[0]
    assert mean["marks"][mean["optimizer"] == "muon"].iloc[0] == "not_final mixture_cell"


def test_13_what_is_chosen_on_validation_is_replayed_on_validation(bench, make):
    """A test split that is harder than validation is no noise of the search."""
    for optimizer, lead in (("muon", 0.0), ("adamw", 0.06)):
        for octave in (-1, 0, 1):
            bench.add(
                "pydocs", optimizer, 0.02 * 2**octave, metrics=make.text(3.0 + lead + 0.001 * abs(octave))
            )
        for seed in range(1000, 1003):
            text = make.text(3.0 + lead + (seed - 1000) / 500, test=0.5)
            text["test_perplexity"] *= 1 + 0.001 * (seed % 2) * (1 + (optimizer == "muon"))
            bench.add("pydocs", optimizer, 0.02, stage=REPLICATE, seed=seed, metrics=text)
    row = lines(bench)["adamw"]
    assert row["gap_nats_high95"]["value"] - row["gap_nats_low95"]["value"] < 0.05


@pytest.mark.parametrize("column", ["gap_points_low95", "gap_points_high95"])
def test_9_a_replica_that_diverged_takes_no_test_set_away(bench, make, column):
    """A row with one would else be compared as if the test set were without end."""
    contest(bench, make, {"muon": MUON, "adamw": MUON}, {"muon": [290, 291, 291], "adamw": [285, 286, 284]})
    before = lines(bench)["adamw"][column]["value"]
    run = {"stage": REPLICATE, "seed": 1003, "state": "diverged", "reason": "x at step 3", "steps": 3}
    bench.add("digits", "adamw", 0.06, **run)
    assert lines(bench)["adamw"][column]["value"] == before
