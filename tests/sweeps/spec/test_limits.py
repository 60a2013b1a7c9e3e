"""What no run, sweep or machine can do is one sentence before anything starts, at plan as at run."""

import re
import sys

import pytest

from htbench.harness import cli
from htbench.harness.config import limits, parts
from htbench.harness.config.key import run_key
from htbench.harness.config.names import flatten
from htbench.harness.config.settings import resolve_config
from htbench.harness.config.yaml_text import read_words, read_yaml
from htbench.harness.errors import EXIT_USAGE, UsageError
from htbench.harness.system import machine
from htbench.sweeps.spec import sweep_file as specs

RUN = ["task=digits", "model=resnet-nano", "steps=2", "batch_size=16"]
SPEC = "base: {task: digits, model: resnet-nano, steps: 2, batch_size: 16}\n"
DEEP = "[" * 3000


def said(capsys):
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "Traceback" not in err, err
    return err


@pytest.fixture(autouse=True)
def four_cores_and_no_gpu(monkeypatch):
    monkeypatch.setattr(limits, "usable_cores", lambda: 4.0)
    monkeypatch.setattr(machine, "visible_gpus", list)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["threads=65"], "threads=65 each is more than the 4 cores .* more than 16 times"),
        (["processes=128", "batch_size=128"], "processes=128 .* more than the 4 cores"),
        (["batch_size=1200"], "batch_size=1200 is more than the training samples of 'digits'.* 1199"),
        (["device=cuda"], "device=cuda, but .* no GPU"),
        (["data_fingerprint=feed"], "data_fingerprint=feed is not that of the data of 'digits'"),
        ([f"seed={2**63}"], r"seeds?=9223372036854775808 is more than 2\^63-1"),
        ([f"data_seed={2**64}"], "data_seed=18446744073709551616 is more than"),
        (["steps=null", "epochs=1e300"], r"epochs=1e\+300 is more than 10\^12"),
        (["steps=1000000000001"], r"steps=1000000000001 is more than 10\^12"),
        (["seed=" + "9" * 5000], "seed: The number 9999999999... has 5000 digits"),
        (["optimizer.lr=" + "9" * 400], "optimizer.lr: The number .* has 400 digits"),
        (["seed=010"], "seed: YAML reads 010 as the octal number 8: write 10"),
        (["steps=1:30"], "steps: YAML reads 1:30 as a number to the base 60, 90: write 90"),
        (["replica=no"], "replica must be a word, not false.* in quotes"),
        (["a=" + DEEP], "a: It is nested more than 50 levels"),
        ([".".join(["a"] * 3000) + "=1"], "more than 50 parts"),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.parametrize("command", ["run", "sweep plan"])
def test_refused_before_anything_starts(tmp_path, capsys, write_spec, command, words, sentence):
    store = ["--root", str(tmp_path / "store")]
    if command == "run":
        given = ["run", *RUN, *words, *store]
    else:
        given = [*command.split(), str(write_spec(SPEC)), *words, *store]
    assert cli.main(given) == EXIT_USAGE
    assert re.search(sentence, said(capsys))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("replicate: {seeds: 1000000000}", "replicate.seeds must be .* from 0 to 1000, not 1000000000"),
        (
            "search: {mode: random, trials: 1000000000}\nspace: {optimizer.lr: {low: 0.1, high: 1}}",
            "search.trials must be .* from 1 to 100000, not 1000000000",
        ),
        ("space: {optimizer.lr: {low: 0.1, high: 1, num: 1000000000}}", "num.*1 to 1000, not 1000000000"),
        (
            "space: {optimizer.lr: {low: 0.1, high: 1, num: 1000}, "
            "optimizer.weight_decay: {low: 0.1, high: 1, num: 1000}}",
            "1000000 runs; there can be 100000",
        ),
        (f"seeds: [{2**63}]", "seeds=9223372036854775808 is more than"),
        (f"seeds: [{2**63 - 1}]\nreplicate: {{seeds: 1}}", "seeds=9223372036854775808 is more than"),
        (
            f"search: {{mode: random, trials: 2, seed: {2**63}}}\n"
            "space: {optimizer.lr: {low: 0.1, high: 1}}",
            "search.seed=9223372036854775808 is more than",
        ),
        ("name: no", "The name must be a word, not false"),
        ("blocks: [{name: on, space: {optimizer.lr: [1]}}]", "name of block 1 must be a word, not true"),
        ("seeds: [010]", "YAML reads 010 as the octal number 8: write 10"),
        ("resources: {timeout_min: 1:30}", "YAML reads 1:30 as .* write 90"),
        ("seeds: [" + "9" * 5000 + "]", "has 5000 digits"),
        ("space: " + DEEP, "nested more than 50"),
        ("space: " + "{a: " * 3000, "nested more than 50"),
        ("- " * 3000, "nested more than 50"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_sweep_file_that_asks_for_too_much(tmp_path, capsys, write_spec, text, sentence):
    path = write_spec(text if text.startswith("- ") else SPEC + text)
    assert cli.main(["sweep", "plan", str(path), "--root", str(tmp_path / "store")]) == EXIT_USAGE
    assert re.search(sentence, said(capsys))


@pytest.mark.parametrize(
    ("action", "url", "sentence"),
    [
        ("plan", "nosuch://host/name", "begins with 'nosuch', which is no kind of database"),
        ("run", "mssql+pymssql://host/name", "begins with 'mssql.pymssql', whose driver is missing"),
        ("submit", "nosuch://host/name", "which is no kind of database"),
    ],
)
def test_a_storage_without_its_driver(tmp_path, capsys, write_spec, url, sentence, action):
    search = f"search: {{mode: random, trials: 2, storage: '{url}'}}\n"
    path = write_spec(SPEC + search + "space: {optimizer.lr: {low: 0.1, high: 1}}")
    assert cli.main(["sweep", action, str(path), "--root", str(tmp_path / "store")]) == EXIT_USAGE
    assert re.search(sentence, said(capsys)) and not (tmp_path / "store").exists()


def plan(write_spec, tmp_path, capsys, text, *words):
    path = write_spec(SPEC + text)
    words = ["sweep", "plan", str(path), "--no-measure", *words, "--root", str(tmp_path / "store")]
    return cli.main(words), capsys.readouterr().err


def test_jobs_are_held_against_what_they_ask_for(tmp_path, capsys, write_spec):
    def of(resources, *words):
        return plan(write_spec, tmp_path, capsys, f"resources: {resources}", *words)

    assert of("{cpus_per_task: 64}", "threads=64") == (0, ""), (
        "more than this machine has, but not than theirs"
    )
    status, err = of("{cpus_per_task: 2}", "threads=4")
    assert status == 0 and "warning: tiny: threads=4 is more than the 2 cores" in err and err.count("\n") == 1
    status, err = of("{cpus_per_task: 2}", "threads=33")
    assert status == EXIT_USAGE and "threads=33 is more than the 2 cores that cpus_per_task asks for" in err
    assert of("{gpus_per_node: 1}", "device=cuda") == (0, ""), "a login node has no GPU"
    assert of("{gres: 'gpu:a100:1'}", "device=cuda") == (0, "")
    assert of("{partition: gpu}", "device=cuda")[0] == EXIT_USAGE


def test_a_few_threads_too_many_are_a_warning(tmp_path, capsys, write_spec):
    status, err = plan(write_spec, tmp_path, capsys, "", "threads=5")
    assert status == 0 and err.startswith("htbench: warning: tiny: processes=1 with threads=5 each is more")
    assert plan(write_spec, tmp_path, capsys, "", "threads=4") == (0, "")


def test_a_schedule_that_an_optimizer_is_not_made_for_is_a_warning(tmp_path, capsys, write_spec):
    status, err = plan(write_spec, tmp_path, capsys, "", "optimizer.name=schedule_free")
    assert status == 0 and err.count("\n") == 1
    assert "schedule_free is made for constant rates after a warm-up, not for schedule.name=cosine" in err
    words = [*RUN, "optimizer.name=schedule_free", "--quiet", "--root", str(tmp_path / "store")]
    assert cli.main(["run", *words]) == 0 and "not for schedule.name=cosine" in capsys.readouterr().err
    constant = ("optimizer.name=schedule_free", "schedule.name=constant")
    assert plan(write_spec, tmp_path, capsys, "", *constant) == (0, "")


def test_the_schedule_of_a_group_is_asked_after_too():
    group = {"optimizer.groups.head.optimizer": "schedule_free"}
    usual, own, apart = (
        limits.schedules_unmeant(resolve_config(flatten(read_words(RUN)) | group | more))
        for more in ({}, {"optimizer.groups.head.schedule": "linear"}, {"schedule.name": "constant"})
    )
    assert [(facts["setting"], facts["schedule"]) for facts in usual + own + apart] == [
        ("schedule.name", "cosine"),
        ("optimizer.groups.head.schedule", "linear"),
    ]


def test_classes_of_the_package_schedulefree_are_made_for_a_constant_rate(tmp_path, monkeypatch):
    free = "import torch\n\n\nclass Free(torch.optim.SGD):\n    pass\n"
    mine = "import schedulefree\n\n\nclass Mine(schedulefree.Free):\n    pass\n"
    for module, text in {"schedulefree": free, "mine_of_it": mine}.items():
        (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("schedulefree:Free", "mine_of_it:Mine", "torch.optim:SGD"):
        parts.allow([name])
        config = resolve_config(flatten(read_words(RUN)) | {"optimizer.name": name})
        expected = [] if name == "torch.optim:SGD" else [(name, "cosine", ("constant",))]
        found = limits.schedules_unmeant(config)
        assert [(f["optimizer"], f["schedule"], f["meant"]) for f in found] == expected
    del sys.modules["schedulefree"], sys.modules["mine_of_it"]


def test_what_is_stored_stays_readable_on_a_smaller_machine(tiny, write_spec, tmp_path, capsys):
    config = resolve_config(
        tiny | {"threads": 4096, "device": "cuda", "data_fingerprint": "of yore", "batch_size": 10**6}
    )
    assert config.threads == 4096
    path = write_spec(SPEC + "space: {threads: [4096]}")
    assert cli.main(["sweep", "status", str(path), "--root", str(tmp_path / "store")]) == 0
    assert capsys.readouterr().err == ""


def test_large_seeds_are_exact(tiny):
    first, second = (resolve_config(tiny | read_words([f"seed={2**63 - n}"])) for n in (1, 2))
    assert first.seed == 2**63 - 1 and run_key(first) != run_key(second)


def test_quoted_words_and_plain_numbers_are_taken(tmp_path):
    path = tmp_path / "fine.yaml"
    path.write_text("replica: '010'\nother: \"1:30\"\nlr: 1e-3\nseed: 0\nratio: 0.5\nhex: 0x10\ntext: a:30\n")
    assert flatten(read_yaml(path))["replica"] == "010"
    assert read_words(["replica='1:30'", "optimizer.lr=1e-3"]) == {"replica": "1:30", "optimizer.lr": 0.001}


def test_the_size_of_a_sweep_counts_blocks_and_seeds(write_spec):
    axes = "space: {optimizer.lr: {low: 0.1, high: 1, num: 1000}}\nseeds: [%s]"
    assert specs.load(write_spec(SPEC + axes % ",".join(map(str, range(100)))))
    with pytest.raises(UsageError, match="101000 runs"):
        specs.load(write_spec(SPEC + axes % ",".join(map(str, range(101)))))
