"""What a file leaves open or says twice: one sentence or a mark, never a silent guess."""

import pytest

from harness import cli
from tests.helpers.stored_runs import put

HEAD = "result,run,step,val_loss\n"

REFUSED = {
    # the file
    "": "is empty",
    "\n \n": "is empty",
    HEAD: "has a header, but no line below it",
    HEAD + "muon,a,1\n": "'curves.csv', line 2: 3 cells, but the header has 4",
    HEAD + "muon,a,1,3.5,9\n": "'curves.csv', line 2: 5 cells",
    HEAD + 'muon,"a"b,1,3.5\n': "line 2: it is no line of a CSV file",
    "result,run,step,step\nmuon,a,1,1\n": "two columns are called 'step'",
    "result;run,step;x,val_loss\n1;2,3;4,5\n": "as many commas as semicolons",
    "result,run,step,val_loss\x07\nmuon,a,1,3\n": "line 1: the column 'val_loss\\x07' has characters",
    # numbers
    HEAD + "muon,a,1,3.5\nmuon,a,2,low\n": "'curves.csv', line 3: val_loss: 'low' is no number",
    HEAD + 'muon,a,1,"3,5"\n': "'3,5' is no number; write the decimal point as '.'",
    HEAD + "muon,a,1,1_0\n": "'1_0' is no number",
    HEAD + "muon,a,1.5,3\n": "step: 1.5 is no whole number from 0",
    HEAD + "muon,a,-1,3\n": "step: -1 is no whole number from 0",
    HEAD + "muon,a,nan,3\n": "step: nan is no whole number from 0",
    HEAD + "muon,a,,3\n": "line 2: it has no step",
    "result,run,epoch,val_loss\nmuon,a,1,3\n": "it has no step; name its column, `--map step=COLUMN`",
    "result,seed,step,val_loss\nmuon,x,1,3\n": "seed: 'x' is no number",
    "result,run,lr,step,val_loss\nmuon,a,inf,1,3\n": "lr: 'inf' is not finite",
    "result,run,lr,step,val_loss\nmuon,a,high,1,3\n": "lr: 'high' is no number",
    "result,run,batch_size,step,val_loss\nmuon,a,1.5,1,3\n": "batch_size: 1.5 is no whole number from 0",
    "result,run,optimizer.k,step,val_loss\nmuon,a,1,1,3\nmuon,b,many,1,3\n": (
        "optimizer.k is '1' in run 'a' of 'muon' and 'many' in run 'b' of 'muon'; give numbers or words"
    ),
    "result,run,seconds_per_step,step,val_loss\nmuon,a,0,1,3\n": "0 is no number of seconds above 0",
    "result,run,step,val_acc\nmuon,a,1,0.9\nmuon,a,2,91.3\n": "needs `--map val_accuracy=val_accuracy/100`",
    "result,run,step,val_accuracy\nmuon,a,1,-0.1\n": "an accuracy is a share in [0, 1]",
    # what is missing
    "run,step,val_loss\na,1,3\n": "Nothing says what run 'a' is a result of: add a column result",
    "result,run,step,loss\nmuon,a,1,3\n": "nothing of a validation split, by which runs are chosen",
    "result,run,step,mood\nmuon,a,1,3\n": "The files have no measured value",
    "result,run,step,val_charm\nmuon,a,1,3\n": "Is a val_charm good when it is high?",
    "result,run,step,val_loss,val_acc\nmuon,a,1,3,0.5\n": "name the one that is reported by --metric",
    "result,run,step,metric\nmuon,a,1,val_loss\n": "the column metric needs a column value beside it",
    # what is said twice
    "result,step,val_loss\nmuon,1,3\nmuon,1,3\n": "line 3: the run of 'muon' has step 1 twice, and no",
    "step,val_loss\n1,3\n1,3\n": "line 3: run 'curves' has step 1 twice, and no column run",
    "result,run,lr,step,val_loss\nmuon,a,0.1,1,3\nmuon,a,0.2,2,3\n": (
        "line 3: run 'a' of 'muon' has optimizer.lr '0.2', but '0.1' in line 2; one run has one value"
    ),
    "result,seed,lr,step,val_loss\nmuon,1,0.1,1,3\nmuon,1,0.2,2,3\n": (
        "The run of 'muon', seed 1 changes its optimizer.lr from line to line; leave that column out"
    ),
    "result,run,gpu,step,val_loss\nmuon,a,H100,1,3\nmuon,a,A100,2,3\n": "hardware 'A100', but 'H100' in",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[-30:])
def test_one_sentence_with_the_place(take, text):
    assert REFUSED[text] in take.refused(text)


WORDS = {
    "=cmd|' /C calc'!A0": "begins with =",
    "@SUM(1)": "begins with @",
    "+x": "begins with +",
    "-x": "begins with -",
    "<script>alert(1)</script>": "has < in it",
    "../../etc/passwd": "has .. in it",
    "${oc.env:HOME}": "has $ in it",
    "[x](javascript:y)": "has ]( in it",
    "adam\u202ew": "'adam\\u202ew' has characters that can't be printed",
    "adam\x1b[31m": "can't be printed",
    "adam\x00w": "can't be printed",
    "x" * 10_000: "has 10000 characters; at most 200 are taken",
}


@pytest.mark.parametrize("word", WORDS, ids=lambda word: ascii(word[:20]))
@pytest.mark.parametrize("place", ["result", "run", "--set"])
def test_hostile_words_are_refused_by_one_rule(take, word, place):
    said = take.refused(
        f"result,run,step,val_loss\n{word if place == 'result' else 'muon'},"
        f"{word if place == 'run' else 'a'},1,3\n",
        *(["--set", f"hardware={word}"] if place == "--set" else []),
    )
    assert WORDS[word] in said and said.isascii() and said.isprintable()


def test_words_that_look_odd_are_taken_as_they_are(take):
    words = [
        "(top)",
        "20260506/seed_0",
        "Müller's β=0.9",
        "a|b, c & d",
        "100 %",
        "日本",
        "'; DROP TABLE runs",
    ]
    lines = "".join(f'"{word}",a,1,3.5\n' for word in words)
    take.tidy(HEAD + lines)
    assert [one.config["optimizer"]["name"] for one in take.records()] == words


def test_no_bytes_of_another_encoding(take):
    assert "line 3: it is not UTF-8" in take.refused((HEAD + "muon,a,1,3\nMüller,a,1,3\n").encode("latin-1"))
    assert "line 1: it is not UTF-8" in take.refused((HEAD + "muon,a,1,3\n").encode("utf-16"))


def test_a_doubled_step_counts_as_it_is_told_last_and_is_marked(take):
    text = HEAD + "muon,a,1,9\nmuon,a,2,8\nmuon,a,3,7.5\nmuon,a,2,8\nmuon,a,3,7\nmuon,b,2,6\n"
    _, err = take.tidy(text)
    first, second = take.records()
    assert first.remarks == [{"kind": "import_doubled", "steps": 2, "differing": 1}]
    assert err == f"htbench: run 'a' of 'muon': {first.note}\n"
    assert [row["val_loss"] for row in take.curve(first)] == [9, 8, 7] and second.note == ""


LOG = HEAD + "muon,a,0,9\nmuon,a,5,8\nmuon,a,0,9\nmuon,a,5,7\nmuon,b,0,9\nmuon,b,5,6\n"


def test_a_log_that_returns_to_its_first_step_is_asked_about(take):
    assert "line 4: run 'a' of 'muon' returns to its first step, 0. `--restarts runs`" in take.refused(LOG)


def test_the_runs_of_one_log_are_runs_if_so_asked(take):
    take.tidy(LOG, "--restarts", "runs")
    assert [record.remarks for record in take.records()] == [
        [],
        [{"kind": "import_stretch", "number": 2}],
        [],
    ]
    assert [record.config["run"] for record in take.records()] == ["a", "a#2", "b"]
    assert [record.metrics["val_loss"] for record in take.records()] == [8, 7, 6]


def test_or_the_last_lines_count(take):
    take.tidy(LOG, "--restarts", "last")
    assert [record.metrics["val_loss"] for record in take.records()] == [7, 6]


def test_what_is_told_of_a_log_holds_for_each_of_its_runs(take):
    about = take.file("about.csv", "run,gpu\na,H100\nb,A100\n")
    take.tidy(LOG, "--restarts", "runs", "--runs", about)
    assert [record.environment["gpu"] for record in take.records()] == ["H100", "H100", "A100"]


def test_a_run_that_resumed_is_one_run(take):
    text = HEAD + "".join(f"muon,a,{step},{4 - step / 100}\n" for step in (0, 10, 20, 10, 20, 30))
    take.tidy(text)
    assert [row["step"] for row in take.curve(take.records()[0])] == [0, 10, 20, 30]


def test_a_copy_of_a_curve_is_named(take):
    curve = [(step, 9 - step / 10) for step in range(12)]
    text = HEAD + "".join(f"muon,{run},{step},{loss}\n" for run in "ab" for step, loss in curve)
    assert "run 'b' of 'muon': its curve is that of another run, value by value\n" in take.tidy(text)[1]


def test_values_that_are_not_finite(take):
    text = HEAD + "muon,a,1,inf\nmuon,a,2,3\nmuon,b,1,3\nmuon,b,2,nan\nmuon,c,1,3\nmuon,c,2,\n"
    out, _ = take.tidy(text)
    assert "(2 completed, 1 diverged)" in out
    healed, diverged, blank = take.records()
    assert [row["val_loss"] for row in take.curve(healed)] == [None, 3] and healed.status == "completed"
    assert diverged.status == "diverged" and diverged.divergence == {
        "kind": "metric_not_finite",
        "metric": "val_loss",
    }
    assert blank.status == "completed" and blank.steps == 1
    assert cli.main(["doctor", "--root", str(take.root)]) in (0, 1)


def test_curves_that_end_elsewhere_are_marked(take):
    text = "result,run,total_steps,step,train_loss,val_loss\n"
    text += "muon,a,30,10,4,5\nmuon,a,30,20,3,\nmuon,b,10,10,4,5\nmuon,c,10,10,4,\n"
    _, err = take.tidy(text)
    assert err.splitlines() == [
        "htbench: 1 run is left out, as there is no val_loss: first run 'c' of 'muon'",
        "htbench: run 'a' of 'muon': the curve after its last evaluation, up to step 20, is left out",
        "htbench: run 'a' of 'muon': its curve ends at step 10 of 30",
    ]
    first, second = take.records()
    assert first.steps == 10 and second.note == ""
    assert first.remarks == [
        {"kind": "import_cut", "step": 20},
        {"kind": "import_short", "step": 10, "planned": 30},
    ]
    assert first.config["schedule"] == {"steps": 30}


def test_the_metric_and_its_direction_may_be_told(take):
    text = "result,run,step,val_loss,val_charm\nmuon,a,1,3,7\n"
    out, _ = take.tidy(text)  # the one that is known
    assert out.endswith("val_loss, lower is better\n")
    out, _ = take.tidy(text, "--metric", "val_charm", "--higher-is-better", name="charm")
    assert out.endswith("val_charm, higher is better\n")
    assert take.records("charm")[0].environment["task"]["metric"] == "charm"


COMMANDS = {
    "--set": (["--set", "task"], "--set task: it is not of the form OURS=THEIRS"),
    "map": (["--map", "optimiser.lr=x"], "'optimiser.lr' is none of our names; did you mean 'optimizer.lr'?"),
    "twice": (["--map", "lr=x", "lr=y"], "--map gives optimizer.lr twice, x and y"),
    "both": (["--map", "lr=x", "--set", "lr=1"], "optimizer.lr is given twice by --map and --set"),
    "measured": (["--set", "val_loss=3"], "val_loss is measured, so it must be in the file"),
    "no column": (["--map", "lr=rate"], "--map: no file has a column 'rate'"),
    "no drop": (["--drop", "runn"], "--drop: no file has a column 'runn'; did you mean 'run'?"),
    "metric": (["--metric", "test_loss"], "the file has val_loss: not 'test_loss'"),
    "step": (["--set", "step=x"], "--set step: 'x' is no number"),
    "runs": (["--runs", "nowhere.csv"], "There is no file 'nowhere.csv'."),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_wrong_word_of_the_command(take, case):
    words, sentence = COMMANDS[case]
    assert sentence in take.refused(HEAD + "muon,a,1,3\n", *words)


JOINED = {
    "run,gpu\na,H100\na,A100\n": "'runs.csv', line 3: it is of the same run as line 2",
    "result,gpu\nmuon,H100\n": "the curves must both have a column run, or both",
    "run,gpu\na,H100\n": "line 2: it fits run 'a' of 'muon' and run 'a' of 'adamw'",
    "result,run,lr\nmuon,a,0.1\n": "optimizer.lr '0.1', but '0.2' in line 2 of 'curves.csv'",
}


@pytest.mark.parametrize("text", JOINED, ids=lambda text: text[-12:])
def test_a_second_file_that_does_not_fit(take, text):
    curves = "result,run,step,val_loss,lr\nmuon,a,1,3,0.2\nadamw,a,1,3,0.2\n"
    assert JOINED[text] in take.refused(curves, "--runs", take.file("runs.csv", text))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("../out", "--name takes letters, digits"),
        ("", "Give the import a name"),
        ("paper-main_result", "'paper-main_result' is a sweep that htbench brings along"),
        ("demo-digits", "'demo-digits' is a sweep that htbench brings along"),
        ("mine", "'mine' is a sweep of your own"),
    ],
)
def test_names_that_an_import_can_not_have(take, name, sentence):
    (take.root / "sweeps/mine").mkdir(parents=True)
    assert sentence in take.refused(HEAD + "muon,a,1,3\n", name=name)


def test_a_store_or_files_but_not_both(take, capsys):
    for words, sentence in (
        (["runs", "import"], "Name another store, or the files of another trainer by --curves."),
        (["runs", "import", "there", "--name", "x"], "--name goes with --curves FILE."),
        (["runs", "import", "--curves", "x.csv"], "Give the import a name: --name NAME"),
    ):
        assert cli.main([*words, "--root", str(take.root)]) == 2
        assert sentence in capsys.readouterr().err
    file = take.file("x.csv", HEAD + "muon,a,1,3\n")
    assert "is given twice" in take(file, file, status=2).err


def test_runs_of_our_own_stay_what_they_are(take):
    key = put(take.root, seed=1)
    before = (take.root / f"runs/{key[:2]}/{key}/record.json").read_bytes()
    take.tidy(HEAD + "sgdm,a,8,3\n", "--set", "lr=0.1")
    assert (take.root / f"runs/{key[:2]}/{key}/record.json").read_bytes() == before
    assert take.records()[0].key != key
