"""Published means follow from the public runs, or the table says what is missing."""

import shutil

import pytest

from results.track3 import data
from results.track3.recomputed import committed, results

# Checked by hand from the logs: one log of the result is one run.
ONE_RUN_A_LOG = {
    *(
        1,
        2,
        3,
        4,
        5,
        7,
        9,
        11,
        13,
        14,
        15,
        18,
        19,
        20,
        24,
        25,
        27,
        29,
        30,
        31,
        33,
        34,
        36,
        37,
        38,
        40,
        42,
        43,
    ),
    45,
}
# In these a log holds several runs, or the runs are in folders below.
SEVERAL_RUNS_A_LOG = {10, 12, 21, 22, 23, 26, 28, 35, 39}
FOLDERS_BELOW = {16, 32}

START, END = [(0, "10.8"), (50, "4.0")], 100
LONG = [(step, f"{10 - step / 10}") for step in range(20)]


def by_number(place=data.PLACE):
    return {result.published.number: result for result in results(place)}


def one(logs):
    (result,) = results(logs.write())
    return result


def test_mean_and_n_of_the_complete_results_are_those_that_are_printed():
    found = {result.published.number for result in committed() if result.reproduces}
    assert len(ONE_RUN_A_LOG) == 29 and len(committed()) == 46
    assert found == ONE_RUN_A_LOG | SEVERAL_RUNS_A_LOG | FOLDERS_BELOW


def test_of_the_others_it_is_said_what_is_missing():
    assert {result.published.number: str(result.missing) for result in committed() if result.missing} == {
        6: "the 20 public runs give 3.2789, printed is 3.2788",
        8: "the 10 public runs give 3.2780, printed is 3.2778",
        17: "the 20 public runs give 3.2788, printed is 3.2789",
        41: "1 of 20 runs is public",
        44: "28 public runs for n = 20; the 20 on H100 give 3.2789",
        46: "the printed loss is another readout of the weights, which is logged elsewhere",
    }


def test_every_log_is_read():
    runs = data.runs()
    assert len({(run.folder, run.log) for run in runs}) == 386
    assert len(runs) == 571
    assert sum(len(result.runs) for result in committed()) == 521


def test_a_log_with_several_runs_is_cut_where_it_returns_to_its_first_step(logs):
    logs.result(100, "3.2790", 2, "many/log.txt")
    logs.log("many", "log", [*START, (END, "3.27800"), *START, (END, "3.28000")])
    result = one(logs)
    assert [str(loss) for loss in result.losses] == ["3.27800", "3.28000"] and result.reproduces


def test_of_a_step_that_occurs_twice_in_a_run_the_last_one_counts(logs):
    logs.result(100, "3.2790", 1, "one/log.txt")
    logs.log("one", "log", [*START, (END, "3.5"), (50, "4.1"), (END, "3.27900")])
    result = one(logs)
    assert [str(loss) for loss in result.losses] == ["3.27900"]
    assert str(result.runs[0].losses[50]) == "4.1"


def test_copies_of_a_log_and_runs_of_another_length_do_not_count(logs):
    logs.result(100, "3.2790", 2, "own/a.txt")
    for folder, name in (("own", "a"), ("own/below", "copy")):
        logs.log(folder, name, [*LONG, (END, "3.27800")])
    logs.log("own/below", "b", [*START, (END, "3.28000")])
    logs.log("own", "longer", [*START, (END, "3.3")], total=200)
    logs.log("own", "broken off", START)
    logs.log("owner", "x", [*START, (END, "3.1")])
    assert [run.log for run in one(logs).runs] == ["a", "b"]


def test_runs_that_share_a_few_losses_are_no_copies(logs):
    logs.result(100, "3.2790", 2, "own/a.txt")
    for name in "ab":
        logs.log("own", name, [*START, (END, "3.27900")])
    assert one(logs).reproduces


def test_a_log_in_no_folder_is_a_result_of_its_own(logs):
    logs.result(100, "3.2790", 1, "a.txt")
    logs.log("(top)", "a", [*START, (END, "3.27900")])
    logs.log("(top)", "b", [*START, (END, "3.1")])
    assert one(logs).reproduces


@pytest.mark.parametrize(
    ("loss", "printed", "reproduces"),
    [("3.27765", "3.2777", True), ("3.27765", "3.2776", False), ("3.27764", "3.2776", True)],
)
def test_a_half_is_rounded_up(logs, loss, printed, reproduces):
    logs.result(100, printed, 1, "one/log.txt")
    logs.log("one", "log", [*START, (END, loss)])
    assert one(logs).reproduces == reproduces


@pytest.mark.parametrize("losses", [[], ["3.279"]])
def test_missing_runs_are_counted(logs, losses):
    logs.result(100, "3.2790", 3, "some/0.txt")
    logs.log("some", "other", START)
    for number, loss in enumerate(losses):
        logs.log("some", str(number), [*START, (END, loss)])
    verb = "is" if losses else "are"
    assert str(one(logs).missing) == f"{len(losses)} of 3 runs {verb} public"


def test_a_changed_loss_changes_the_result(tmp_path):
    for path in data.PLACE.glob("*.csv"):
        shutil.copy(path, tmp_path)
    text = (tmp_path / "val_loss.csv").read_text()
    line = "20260430_adamh,7533dd87-107f-4a4f-8229-acbec0fb00ac,4875,4875,3.27246\n"
    assert text.count(line) == 1
    (tmp_path / "val_loss.csv").write_text(text.replace(line, line.replace("3.27246", "3.27346")))
    before, after = by_number(), by_number(tmp_path)
    assert str(after[4].missing) == "the 5 public runs give 3.2743, printed is 3.2741"
    assert {number for number in before if before[number].missing != after[number].missing} == {4}
