"""`htbench judge`: the answer to a file of results is that of a store, and what misleads is marked."""

import csv
import io

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from htbench.harness.cli import call
from htbench.harness.errors import UsageError
from htbench.results import frame
from htbench.results.frames.from_csv import read_runs
from htbench.results.frames.load import load_rows
from htbench.results.tables.answer import answers

GAINS = {"muon": (3.20, 3.21, 3.22), "adamw": (3.30, 3.31, 3.325)}


def lines(stage="", **columns):
    """A line per run of GAINS, all alike in some columns; by stage of a search or fresh."""
    return [
        {"optimizer": name, "seed": seed, "val_loss": value} | ({"stage": stage} if stage else {}) | columns
        for name, values in GAINS.items()
        for seed, value in enumerate(values, start=1)
    ]


@pytest.fixture
def judge(tmp_path, capsys):
    """What the command says of some lines, its exit status first."""

    def say(content, *words):
        path = tmp_path / "results.csv"
        path.write_text(content if isinstance(content, str) else pd.DataFrame(content).to_csv(index=False))
        status = call(["judge", str(path), *words])
        out, err = capsys.readouterr()
        return status, out + err.replace(str(tmp_path), "")

    return say


@pytest.fixture
def answer(tmp_path):
    def find(content):
        path = tmp_path / "results.csv"
        path.write_text(pd.DataFrame(content).to_csv(index=False, na_rep="nan"))
        (one,) = answers(read_runs(path))
        return one

    return find


def marks(one):
    return {note.kind.removeprefix("danger_"): note for note in one.dangers}


# --- the same answer as of a store ---


@pytest.mark.parametrize(("task", "metric"), [("pydocs", "perplexity"), ("digits", "accuracy")])
def test_the_answer_is_that_of_the_table_for_the_same_runs(demo_store, tmp_path, task, metric):
    runs = frame(demo_store.root)
    runs = runs[(runs["task"] == task) & runs["stage"].isin(["search", "replicate"])]
    runs = runs.replace({"stage": {"replicate": "fresh"}})
    columns = ["task", "model", "setting", "optimizer", "stage", "seed", "data_seed", "lr", "p", "steps"]
    columns += [f"val_{metric}", f"test_{metric}"] + (["test_samples"] if metric == "accuracy" else [])
    runs[columns].to_csv(tmp_path / "runs.csv", index=False, na_rep="nan")
    (judged,) = answers(read_runs(tmp_path / "runs.csv", metric=f"val_{metric}"))
    (stored,) = answers([row for row in load_rows(demo_store) if row["task"] == task])
    assert (judged.verdict, judged.workload, judged.seeds) == (stored.verdict, stored.workload, stored.seeds)
    assert sum(place.rank != "" for place in judged.places) >= 3
    for ours, theirs in zip(stored.places, judged.places, strict=True):
        assert theirs.value.text() == ours.value.text()
        for name in ("rank", "name", "kind", "setting"):
            assert getattr(theirs, name) == getattr(ours, name), (ours.name, name)
        ends = [[x for x in (one.gap, one.low, one.high) if x is not None] for one in (ours, theirs)]
        assert ends[1] == pytest.approx(ends[0], rel=1e-12)  # sums in another order
    edges = [
        [note["column"] for note in one.dangers if note.kind == "danger_edge"] for one in (stored, judged)
    ]
    assert edges[0] == edges[1]
    assert [note.kind for note in judged.open] == [note.kind for note in stored.open]


ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([0.1, 0.2, 0.4]), st.integers(0, 3), st.floats(1, 9)),
    min_size=1,
    unique_by=lambda row: row[:3],
)


@settings(max_examples=30)
@given(ROWS, st.sampled_from(["", "search"]), st.randoms(use_true_random=False))
def test_neither_the_order_of_lines_nor_that_of_columns_matters(tmp_path_factory, rows, stage, chance):
    path = tmp_path_factory.getbasetemp() / "shuffled.csv"
    names = ["optimizer", "lr", "seed", "val_loss", *([stage] and ["stage"] if stage else [])]
    rows = [[*row, *([stage] if stage else [])] for row in rows]
    if stage:  # the first setting of each optimizer again, on a seed that no search has
        first = {row[0]: row for row in reversed(rows)}.values()
        rows += [[*row[:2], 7, row[3] + 0.1, "fresh"] for row in first]
    seen = []
    for _ in range(2):
        order = chance.sample(range(len(names)), len(names))
        table = [[row[at] for at in order] for row in (names, *chance.sample(rows, len(rows)))]
        text = io.StringIO()
        csv.writer(text).writerows(table)
        path.write_text(text.getvalue())
        found = read_runs(path)
        outcomes = answers(found)
        seen.append(([{k: repr(v) for k, v in row.items() if k != "line"} for row in found], outcomes))
    assert seen[0][0] == seen[1][0]
    assert list(map(repr, seen[0][1])) == list(map(repr, seen[1][1]))


# --- what it says ---


def test_one_setting_each_and_a_clear_winner(judge):
    status, said = judge(lines())
    assert status == 0 and "results: val loss ↓, 3 runs" in said
    assert "muon is best: it beats adamw." in said and "!" not in said


def test_another_column_may_hold_the_rows(judge):
    renamed = [{"who": line.pop("optimizer")} | line for line in lines()]
    assert "did you mean" in judge(renamed)[1] or "needs a column 'optimizer'" in judge(renamed)[1]
    assert "muon is best" in judge(renamed, "--row", "who")[1]


def test_workloads_are_never_compared(judge):
    _, said = judge([*lines(workload="small"), *[line | {"val_loss": 1} for line in lines(workload="large")]])
    assert said.count("val loss ↓") == 2 and "large: " in said and "small: " in said


def test_every_format_has_it(judge):
    assert '"name": "judge"' in judge(lines(), "--json")[1]
    assert judge(lines(), "--format", "csv")[1].startswith("task,model,setting,optimizer,")


def test_high_values_can_be_good(judge):
    points = [line | {"points": line["val_loss"]} for line in lines()]
    status, said = judge(points, "--metric", "points")
    assert (status, "Is a high points good?" in said) == (2, True)
    assert "adamw is best" in judge(points, "--metric", "points", "--higher-is-better")[1]
    assert "muon is best" in judge(points, "--metric", "points", "--lower-is-better")[1]


def test_a_search_chooses_and_fresh_runs_are_reported(answer):
    search = [
        {"optimizer": "muon", "stage": "search", "seed": 0, "lr": lr, "val_loss": value}
        for lr, value in ((0.1, 3.5), (0.2, 3.3), (0.4, 3.4))
    ]
    fresh = [line | {"lr": 0.2 if line["optimizer"] == "muon" else 0.01} for line in lines(stage="fresh")]
    one = answer([*search, *fresh])
    assert one.verdict.kind == "answer_best" and one.places[0].setting == {"lr": 0.2}
    assert one.places[0].value.spread.mean == pytest.approx(3.21)  # no run of the search is in it
    assert set(marks(one)) == {"budget"}  # adamw has one setting, of which nothing was chosen


def test_an_edge_of_the_search_is_told(answer):
    search = [
        line | {"stage": "search", "seed": 0, "lr": lr, "val_loss": 3 + lr}
        for line in lines()[::3]
        for lr in (0.1, 0.2)
    ]
    one = answer([*search, *lines(stage="fresh", lr=0.1)])
    assert one.verdict.kind == "answer_leads"
    assert "muon: lr 0.1 is the grid's edge, lower could win → run 0.05, too" in map(str, one.dangers)
    search += [line | {"lr": 0.05, "val_loss": 3.2} for line in search[::2]]
    assert "edge" not in marks(answer([*search, *lines(stage="fresh", lr=0.1)]))


# --- what misleads ---


def test_rows_that_stopped_earlier_are_marked(answer):
    told = [line | {"steps": 900 if line["optimizer"] == "muon" else 1000} for line in lines()]
    note = marks(answer(told))["stopped_early"]
    assert (note["who"], note["count"], note["first"], note["most"]) == (["muon"], 3, 900, 1000)
    assert "stopped_early" not in marks(answer(lines(steps=1000)))


def test_a_row_with_one_seed_has_no_rank(answer):
    one = answer([*lines(), {"optimizer": "soap", "seed": 1, "val_loss": 3.4}])
    assert [place.rank for place in one.places if place.name == "soap"] == [""]
    assert [note.kind for note in one.open] == ["open_few"]


def test_settings_that_were_chosen_by_what_is_reported_give_no_verdict(answer):
    one = answer([*lines(lr=0.1), {"optimizer": "muon", "seed": 1, "val_loss": 3.0, "lr": 0.2}])
    assert one.verdict.kind == "answer_chosen_here" and {place.rank for place in one.places} == {""}
    note = marks(one)["chosen_by_reported"]
    assert (note["who"], note["settings"]) == (["muon"], 2)


def test_a_fresh_seed_that_the_search_had_does_not_count(answer):
    search = [line | {"stage": "search", "seed": 2} for line in lines()[::3]]
    one = answer([*search, *lines(stage="fresh")])
    assert "stale" in marks(one) and one.seeds == (2, 2)


def test_settings_that_rows_do_not_share_are_told_and_none_of_ours_is_a_default(answer):
    told = [line | {"batch_size": 9, "wd": 0.1 * (line["optimizer"] == "muon")} for line in lines()]
    assert {kind: note["columns"] for kind, note in marks(answer(told)).items()} == {"fixed_unlike": ["wd"]}


def test_a_run_that_diverged_is_a_result(answer, judge):
    told = [*lines(), {"optimizer": "muon", "seed": 4, "val_loss": float("nan")}]
    assert "replicas_count" in marks(answer(told))
    assert "div." in judge("optimizer,seed,val_loss\na,1,nan\nb,1,2\n")[1]


def test_where_all_runs_diverged_a_file_without_steps_names_no_step(judge):
    status, said = judge("optimizer,seed,val_loss\na,1,nan\na,2,nan\n")
    assert status == 0 and "ended without a value (2 diverged). Try lower rates." in said


# --- what it refuses ---


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["results.csv", "no line with a run"]),
        ("optimizer,seed,val_loss\n", ["no line with a run"]),
        ("optimizer,sed,val_loss\na,1,2\n", ["'seed'", "did you mean 'sed'"]),
        ("optimizer,seed,loss\na,1,2\n", ["'val_loss'", "--metric", "'loss'"]),
        ("optimizer,seed,val_loss\na,1,2\na,2,x3\n", ["line 3", "val_loss is 'x3'"]),
        ("optimizer,seed,val_loss\na,1,2\na,2,\n", ["line 3", "val_loss is ''", "nan"]),
        ("optimizer,seed,val_loss\na,1.5,2\n", ["line 2", "seed is '1.5'"]),
        ("optimizer,seed,val_loss\n,1,2\n", ["line 2", "optimizer is empty"]),
        ("optimizer,seed,val_loss\na,1,2\nb,1,2\na,1,3\n", ["line 4", "line 2", "a with seed 1"]),
        ("optimizer,seed,val_loss\na,1,2,3\n", ["line 2", "4 cells"]),
        ("optimizer,seed,seed,val_loss\na,1,1,2\n", ["two columns 'seed'"]),
        ("optimizer,seed,val_loss,stage\na,1,2,final\n", ["line 2", "'final'", "'search' and 'fresh'"]),
        (
            "optimizer,seed,val_loss,stage,lr\na,0,2,search,1\na,1,2,fresh,2\n",
            ["line 3", "no line of the search"],
        ),
        ('optimizer,seed,val_loss\n"a,1,2\n', ["line", "unexpected end"]),
    ],
)
def test_what_is_wrong_is_one_sentence_with_line_and_value(judge, content, words):
    status, said = judge(content)
    assert status == 2 and said.count("\n") == 1
    assert [word for word in words if word not in said] == []


def test_shares_and_perplexities_have_bounds(judge):
    for column, value in (("val_accuracy", 91.3), ("val_ppl", 0.2)):
        status, said = judge(f"optimizer,seed,{column}\na,1,{value}\n", "--metric", column)
        assert status == 2 and f"line 2: {column} is {value}" in said


def test_a_file_that_is_not_there_or_no_text(judge, tmp_path):
    with pytest.raises(UsageError, match=r"can't be read: No such file"):
        read_runs(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="no text in UTF-8"):
        read_runs(tmp_path / "binary.csv")


def test_words_of_a_file_do_no_harm(judge):
    told = [line | {"optimizer": f"{line['optimizer']}\x1b[31m"} for line in lines()]
    assert "\x1b" not in judge(told)[1]
    formula = [line | {"optimizer": f"={line['optimizer']}"} for line in lines()]
    assert ",'=muon," in judge(formula, "--format", "csv")[1]
