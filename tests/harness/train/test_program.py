"""Runs of a program that is not ours: what it gets, what it reports, and how it may end."""

import os
import signal
import sys
import threading
import time

import pytest
from torch.utils.tensorboard import SummaryWriter

from htbench.harness.config import programs as program
from htbench.harness.config import template
from htbench.harness.config.key import run_key
from htbench.harness.config.settings import as_stored, resolve_config, to_settings
from htbench.harness.errors import RunFailedError, StoppedError, UsageError
from htbench.harness.show.status import Status
from htbench.harness.store import Reason, Store, curve
from htbench.harness.store.integrity import find_contradiction
from htbench.harness.store.layout import programs_folder
from htbench.harness.train import program as run
from htbench.harness.train.monitor import STOP_SIGNALS, Monitor
from htbench.harness.train.reports import from_results
from htbench.sweeps.plan.program_copy import copy_program
from htbench.sweeps.spec import program_folder as folder
from tests.helpers.waiting import wait_for

SETTINGS = {
    "task": "t",
    "model": "m",
    "seed": 3,
    "program.command": f"{sys.executable} main.py {{args}} --seed={{seed}} --out={{run_dir}}",
    "program.report": "test_loss",
    "program.resume.how": "self",
    "program.base.steps": 4,
    "optimizer.lr": 0.1,
}
READ = r"""
import json, os, pathlib, sys, time
args = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
report = open(os.environ["HTBENCH_METRICS"], "a")
def log(**row):
    report.write(json.dumps(row) + "\n"); report.flush()
"""
TRAIN = (
    READ
    + r"""
place = pathlib.Path(args["out"], "step")
for step in range(1 + (int(place.read_text()) if place.exists() else 0), int(args["steps"]) + 1):
    time.sleep(float(args.get("pause", 0)))
    log(step=step, val_loss=float(args["lr"]) + 1 / step, test_loss=2 + int(args["seed"]))
    place.write_text(str(step))
"""
)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def make(tmp_path, store):
    """The config of a run of a program with this code."""

    def made(code=TRAIN, **more):
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        (home / "main.py").write_text(code)
        files = folder.list_files(home)
        named = {name.replace("__", "."): value for name, value in more.items()}
        pinned = {"program.files": folder.digest(files), "program.code": folder.digest(files)}
        config = resolve_config(SETTINGS | {"program.folder": str(home)} | pinned | named)
        copy_program(store.root, program.of(config))
        return config

    return made


def test_it_is_trained_once_and_its_record_says_what_it_reported(make, store):
    config = make()
    record = run.run_program(config, store, Monitor())
    assert record.metrics == {"val_loss": 0.35, "test_loss": 5.0} and record.steps == 4
    assert record.config["optimizer"]["hyper"] == {"lr": 0.1} and record.key == run_key(config)
    rows = curve.read(store.files(record.key).metrics)
    assert [row["val_loss"] for row in rows] == [1.1, 0.6, pytest.approx(0.1 + 1 / 3), 0.35]
    assert run.run_program(make(), store, Monitor()) == store.record(record.key)
    assert store.last_attempt(record.key) == 1


def test_its_config_is_the_same_after_a_way_through_a_file(make):
    config = make(program__env__NAME="{lr}", optimizer__betas=[0.9, 0.95])
    assert as_stored(to_settings(config)) == config
    assert resolve_config(to_settings(config)) == config


def test_two_settings_that_give_one_command_are_one_run(make):
    one = make()
    words = SETTINGS["program.command"].replace("{args}", "--steps={steps} --lr={lr}")
    same = make(program__command=words)
    assert program.command(one, {})[0] == program.command(same, {})[0] and run_key(one) == run_key(same)
    others = [
        make(optimizer__lr=0.2),
        make(seed=4),
        make(READ),
        make(program__data_version="2"),
        make(task="u"),
    ]
    assert len({run_key(other) for other in (one, *others)}) == 6
    assert run_key(make(f"# a comment\n{TRAIN}")) == run_key(one)


def test_it_gets_its_run_in_its_environment(make, store):
    code = READ + "log(step=1, val_loss=int(os.environ['HTBENCH_SEED']), test_loss=float(os.environ['RATE']),"
    code += "attempt=int(os.environ['HTBENCH_ATTEMPT']), here=float(os.getcwd() in sys.path[0]))"
    record = run.run_program(make(code, program__env__RATE="{lr}"), store, Monitor())
    assert record.metrics == {"val_loss": 3, "test_loss": 0.1, "attempt": 1, "here": 1}
    copies = programs_folder(store.root)
    assert sorted(path.name for path in next(copies.iterdir()).iterdir()) == ["main.py"]


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("print('some'); sys.exit(3)", "it ended with status 3, after these lines:\nsome"),
        ("os.kill(os.getpid(), 9)", "SIGKILL killed it; the machine's memory may have been full"),
        ("log(step=1, test_loss=2)", "it never reported val_loss; it reported test_loss."),
        ("log(step=1, val_loss='2.5')", 'it reported val_loss as text, "2.5", not as a number.'),
        ("log(step=1, val_loss=2.5)", "it never reported test_loss; it reported val_loss."),
        ("print('htbench: metrics are lost: ...'); log(step=1, val_loss=2)", "could not be written"),
    ],
)
def test_it_fails_with_a_sentence_and_is_tried_again_on_request(make, store, code, sentence):
    config = make(READ + code)
    with pytest.raises(RunFailedError) as error:
        run.run_program(config, store, Monitor())
    assert sentence in str(error.value)
    state = store.state(run_key(config))
    assert state.reason is Reason.ERROR and sentence in state.message
    with pytest.raises(RunFailedError, match="failed"):
        run.run_program(config, store, Monitor())
    assert store.reset_failure(run_key(config)) and store.state(run_key(config)).status is Status.WAITING


@pytest.mark.parametrize(
    "code",
    [
        "log(step=1, val_loss=float('nan'))",
        "log(step=2, diverged=True); sys.exit(1)",
        "log(step=1, val_loss=2.5); print('step 2: loss tensor(nan)')",
    ],
)
def test_it_diverges_whatever_its_status(make, store, code):
    expression = r"step (?P<step>\d+): loss (?P<val_loss>\S+)"
    config = make(READ + "log(step=0, val_loss=1)\n" + code, program__log=[expression])
    record = run.run_program(config, store, Monitor())
    metrics = record.metrics
    assert record.status is Status.DIVERGED and metrics["val_loss"] is metrics["test_loss"] is None


def test_what_it_reports_after_its_metric_contradicts_nothing(make, store):
    code = READ + "log(step=1, val_loss=2, test_loss=3); log(step=2, train_loss=1)"
    record = run.run_program(make(code), store, Monitor())
    folder = store.run_folder(record.key)
    assert record.steps == 1 and find_contradiction(folder, record) is None
    curve_file = store.files(record.key).metrics
    curve_file.write_text(curve_file.read_text().replace('"val_loss": 2', '"val_loss": 1'))
    assert find_contradiction(folder, record).kind == "metric_differs"
    curve_file.write_text("")
    assert find_contradiction(folder, record).kind == "metric_differs", "trimmed"


def test_the_best_value_can_count_and_the_highest_be_the_best(make, store):
    code = READ + "[log(step=n, val_acc=x) for n, x in enumerate([.5, .9, .8])]"
    way = {"program__metric": "val_acc", "program__higher_is_better": True, "program__report": ""}
    last = run.run_program(make(code, **way), store, Monitor())
    best = run.run_program(make(code, **way, program__take="best"), store, Monitor())
    assert (last.metrics["val_acc"], best.metrics["val_acc"], best.metrics["test_acc"]) == (0.8, 0.9, 0.9)


def test_values_of_its_own_stand_beside_ours_of_the_same_names(make, store):
    code = READ + "log(step=1, loss=1, val_loss=2, test_loss=3)"
    config = make(code, program__metric="loss", program__report="val_loss")
    ours = {"loss": 1, "val_loss": 1, "test_loss": 2}
    theirs = {"reported_val_loss": 2, "reported_test_loss": 3}
    assert run.run_program(config, store, Monitor()).metrics == ours | theirs


def test_its_output_is_read_whatever_ends_a_line(make, store):
    code = r"print('\x1b[1mstep 1: loss 1,000.5\x1b[0m\rstep 2: loss 2.5\nnan 3 loss nan', end='')"
    expression = r"(?:step|nan) (?P<step>\d+):? loss (?P<val_loss>\S+)"
    record = run.run_program(make(code, program__log=[expression], program__report=""), store, Monitor())
    rows = curve.read(store.files(record.key).metrics)
    assert [(row["step"], row["val_loss"]) for row in rows] == [(1, 1000.5), (2, 2.5), (3, None)]
    assert "loss 2.5" in store.files(record.key).log.read_text()


def test_files_that_it_leaves_are_read(tmp_path):
    (tmp_path / "state.json").write_text(
        '{"log": {"history": [{"step": 5, "eval_loss": 2}, {"step": 6, "eval_loss": NaN}]}}'
    )
    (tmp_path / "a.csv").write_text("\ufeffiteration,step,loss,acc\n1,7,0.5,\n2,7,nan,high,more\n3")
    (tmp_path / "b.jsonl").write_text('{"step": 3, "val_loss": 1.5}\n')
    with SummaryWriter(tmp_path / "tb") as events:
        for step in (7, 8):
            events.add_scalar("loss/val", 1 / 8 if step < 8 else float("nan"), step)
    wanted = [
        {"path": "state.json", "list": "log.history", "names": {"val_loss": "eval_loss"}},
        {"path": "a.csv", "step": "iteration"},
        {"path": "b.jsonl"},
        {"path": "gone.csv"},
        {"path": "tb", "names": {"val_loss": "loss/val"}},
    ]
    assert list(from_results(tmp_path, wanted)) == [
        {"step": 5, "val_loss": 2},
        {"step": 6, "val_loss": None},
        {"step": 1, "loss": 0.5},
        {"step": 2, "loss": None, "acc": "high"},
        {"step": 3},
        {"step": 3, "val_loss": 1.5},
        {"step": 7, "val_loss": 0.125},
        {"step": 8, "val_loss": None},
    ]


# --- it is stopped, or dies ---


def stop_when(store, config, is_due, **signals):
    """A monitor that asks for a stop as soon as something holds of the program's folder."""
    monitor, place = Monitor(), store.files(run_key(config)).program

    def ask():
        wait_for(lambda: is_due(place))
        monitor.signals.update(signals.get("numbers", ()))
        monitor.stop_requested = True

    threading.Thread(target=ask, daemon=True).start()
    return monitor


@pytest.mark.parametrize(("how", "repeated"), [("self", False), ("none", True)])
def test_stopped_it_goes_on_in_its_folder_or_from_the_start(make, store, how, repeated):
    config = make(program__resume__how=how, optimizer__pause=0.2)
    monitor = stop_when(store, config, lambda place: (place / "step").exists())
    with pytest.raises(StoppedError):
        run.run_program(config, store, monitor)
    state = store.state(run_key(config))
    assert state.status is Status.WAITING and state.attempts == 1
    before = len(curve.read(store.files(run_key(config)).metrics))
    record = run.run_program(config, store, Monitor())
    assert record.attempts == 2 and record.metrics["val_loss"] == 0.35 and 0 < before < 4
    assert store.files(record.key).log.read_text().count("$ ") == 2
    steps = [row["step"] for row in curve.read(store.files(record.key).metrics)]
    assert steps == [1, 2, 3, 4] and record.useful_seconds > (0.8 if repeated else 0.6)


@pytest.fixture
def handlers():
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_a_warning_that_reaches_the_program_itself_is_no_failure(make, store):
    config = make(f"{TRAIN}\nos.kill(os.getppid(), 12)\nos.kill(os.getpid(), 12)\ntime.sleep(60)")
    monitor = Monitor()
    monitor.stop_on_signals()
    with pytest.raises(StoppedError):
        run.run_program(config, store, monitor)
    assert store.state(run_key(config)).status is Status.WAITING and monitor.signals == {signal.SIGUSR2}


def test_who_ignores_a_signal_is_killed_and_counts_as_stopped(make, store, monkeypatch):
    monkeypatch.setattr(run, "GRACE", 0.3)
    code = READ + "import signal, subprocess; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    code += "child = subprocess.Popen([sys.executable, '-c', 'import signal, time;"
    code += "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'])\n"
    code += "pathlib.Path(args['out'], 'child').write_text(str(child.pid)); time.sleep(600)"
    config = make(code)
    monitor = stop_when(
        store, config, lambda place: (place / "child").exists() and (place / "child").read_text()
    )
    with pytest.raises(StoppedError):
        run.run_program(config, store, monitor)
    assert store.state(run_key(config)).status is Status.WAITING
    child = int((store.files(run_key(config)).program / "child").read_text())
    wait_for(lambda: not os.path.exists(f"/proc/{child}") or "Z" in open(f"/proc/{child}/stat").read())


def test_it_resumes_with_other_words_if_its_checkpoint_is_there(make, store):
    code = READ + "kind = 10 * ('more' in args) + int(os.environ['HTBENCH_ATTEMPT'])\n"
    code += "log(step=kind, val_loss=kind, test_loss=1)\n"
    code += "if kind == 1: pathlib.Path(args['out'], 'ckpt').touch(); time.sleep(600)\n"
    resume = {"program__resume__exists": "{run_dir}/ckpt", "program__resume__args": "--more=1"}
    config = make(code, **resume, program__resume__how="")
    monitor = stop_when(store, config, lambda place: (place / "ckpt").exists())
    with pytest.raises(StoppedError):
        run.run_program(config, store, monitor)
    assert run.run_program(config, store, Monitor()).metrics["val_loss"] == 12


def test_what_a_dead_runner_left_is_killed_before_the_program_goes_on(make, store):
    """The program dies with its runner, its children need not: those of a killed torchrun stay at work."""
    worker = "import pathlib, sys, time\nwhile True: pathlib.Path(sys.argv[1]).touch(); time.sleep(0.05)"
    start = "import subprocess\nif os.environ['HTBENCH_ATTEMPT'] == '1':\n"
    start += f"    words = [sys.executable, '-c', {worker!r}]\n"
    start += "    subprocess.Popen([*words, args['out'] + '/alive'], start_new_session=True)\n"
    config = make(READ + start + TRAIN.removeprefix(READ), optimizer__pause=0.3)
    child = os.fork()
    if child == 0:  # the runner
        try:
            run.run_program(config, store, Monitor())
        finally:
            os._exit(0)
    files = store.files(run_key(config))
    wait_for((files.program / "step").exists)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    record = run.run_program(config, store, Monitor())
    assert record.attempts == 2 and record.metrics == {"val_loss": 0.35, "test_loss": 5.0}
    assert files.log.read_text().count("$ ") == 2 and len(curve.read(files.metrics)) == 4
    last = (files.program / "alive").stat().st_mtime_ns
    time.sleep(0.5)
    assert (files.program / "alive").stat().st_mtime_ns == last


@pytest.mark.parametrize(
    "wrong", [{"program.more": 1}, {"program.command": ["rm"]}, {"program.log": "x"}, {"steps": 3}]
)
def test_a_store_that_says_other_things_of_a_program_is_refused(wrong):
    with pytest.raises(UsageError):
        resolve_config(SETTINGS | wrong)


def test_what_changes_numbers_tells_two_workloads_apart():
    def data(**more):
        return resolve_config(SETTINGS | {f"program.{name}": x for name, x in more.items()}).data_fingerprint

    for name, value in {"env.STEPS": 9, "take": "best", "derive.x": "lr / 2", "seeds": "none"}.items():
        assert data(**{name: value}) != data()
    for name, value in {"resume.how": "none", "log": ["(?P<x>.)"], "folder": "/", "base.steps": 5}.items():
        assert data(**{name: value}) == data()


def test_a_template_is_filled_as_a_shell_would_split_it():
    settings = {"lr": 1.0, "betas": [0.9, 0.95], "opt": "a b", "n": 3}
    words = template.words("""run.py '{opt}' x={lr} {args} {{n}} '{"json": 1}'""", settings, {})
    assert words == ["run.py", "a b", "x=1.0", "--betas=[0.9, 0.95]", "--n=3", "{n}", '{"json": 1}']
    assert template.words("{args_no_hyphens}", {"n": 3, "x.y": 1}, {}) == ["n=3", "x.y=1"]
    with pytest.raises(UsageError, match="can't be split into words: No closing quotation"):
        template.words("python 'x", {}, {})
    with pytest.raises(UsageError, match=r"'\{lrr\}' in it stands for no setting; did you mean 'lr'"):
        template.check_names(["lrr"], settings, "it")


def test_a_setting_can_be_computed_of_others_by_arithmetic_only(make):
    config = make(program__derive__min_lr="lr / 10 + -steps ** 2")
    assert program.settings(config)["min_lr"] == pytest.approx(0.01 - 16)
    assert template.compute("2 ** 3 + steps", {"steps": 4}) == 12
    endless = ["9 ** 9 ** 9 ** 9", "(0 - 1) ** 0.5", "1 +" * 100_000 + "1"]
    for text in ("__import__('os')", "lr.real", "name", "1 +", "1 / 0", *endless):
        with pytest.raises(UsageError, match="expression"):
            template.compute(text, {"lr": 0.1, "name": "word"})
