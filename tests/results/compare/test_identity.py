"""What may share a cell: runs of one data set, one code and one config but for seeds."""

import dataclasses
import json

import pytest

from htbench.harness import cli
from htbench.harness.store.points import REPLICATE
from htbench.harness.store.record import RunRecord
from htbench.harness.tasks import fingerprint
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import GENERAL
from tests.helpers.frames import load_frame
from tests.helpers.rendering import render

FRESH = (1000, 1001)


def rewrite(bench, key, **changes):
    """Change a record, and with it the index, as another version of the code would have written it."""
    path = bench.store.run_folder(key) / "record.json"
    record = RunRecord.from_json(json.loads(path.read_text()))
    config = {**record.config, **changes.pop("config", {})}
    environment = {**record.environment, **changes.pop("environment", {})}
    record = dataclasses.replace(record, config=config, environment=environment, **changes)
    path.write_text(json.dumps(record.to_json()))
    bench.store.rebuild_index()


def rewrite_twins(bench, **changes):
    """Change all runs of the replica `b`, which then are runs of the same plan, made otherwise."""
    for _, record in list(bench.store.index.rows().values()):
        if record.config["replica"] == "b":
            rewrite(bench, record.key, config={**changes, "replica": ""})


def chosen(bench, make, accuracies, optimizer="muon", sweep=None, **more):
    """A search run and replicas; returns the keys of the latter."""
    bench.add("digits", optimizer, 0.02, sweep=sweep, metrics=make.image(accuracies[0], 0.4), **more)
    fresh = {"sweep": sweep, "stage": REPLICATE, **more}
    return [
        bench.add("digits", optimizer, 0.02, seed=seed, metrics=make.image(accuracy + 0.01, 0.4), **fresh)
        for seed, accuracy in zip(FRESH, accuracies, strict=True)
    ]


def main_result(bench, fmt="md"):
    return render(GENERAL["main_result"](View(load_rows(bench.write()))), fmt)


def rows(text):
    return [line.split("|")[1].split()[0] for line in text.splitlines() if line.startswith("| muon")]


# --- one data set ---


def test_runs_on_two_data_sets_are_two_sections_by_name(bench, make):
    chosen(bench, make, (0.80, 0.90))
    chosen(bench, make, (0.85, 0.95), base={"replica": "b"})
    rewrite_twins(bench, data_fingerprint="f" * 16)
    text = main_result(bench)
    titles = [line for line in text.splitlines() if line.startswith("###")]
    assert titles == [
        "### digits, resnet-nano (batch_size=64, steps=100, data=0123456789abcdef)",
        "### digits, resnet-nano (batch_size=64, steps=100, data=ffffffffffffffff)",
        "### Legend",
    ]
    assert text.count("n=4") == 0 and "| 2 |" in " ".join(text.split())


def test_a_run_that_waits_belongs_to_the_data_that_its_sweep_has_used(bench, make):
    """A table is printed on a machine with other data; the search is unfinished all the same."""
    chosen(bench, make, (0.80, 0.81))
    chosen(bench, make, (0.50, 0.51), "adamw")
    bench.add("digits", "adamw", 0.04, state="waiting")
    assert "**" not in main_result(bench)
    for point in bench.points["demo-digits"]:
        if point.overrides["optimizer.lr"] == 0.04:
            del point.overrides["data_fingerprint"]  # what this machine has is filled in, and is another
    frame = load_frame(bench.write())
    assert set(frame["setting"]) == {"batch_size=64, steps=100"}
    assert "**" not in main_result(bench)


# --- one code, one revision ---


@pytest.mark.parametrize(
    ("revisions", "names"),
    [
        ({"optimizer": 3}, ["muon (revision 1)", "muon (revision 3)"]),
        ({"optimizer": "1+3fa1c2d4"}, ["muon (revision 1)", "muon (edited 3fa1c2d4)"]),
    ],
)
def test_two_versions_of_an_optimizer_are_two_rows_by_name(bench, make, revisions, names):
    chosen(bench, make, (0.80, 0.90))
    chosen(bench, make, (0.85, 0.95), base={"replica": "b"})
    rewrite_twins(bench, revisions=revisions)
    frame = load_frame(bench.write())
    assert list(dict.fromkeys(frame["optimizer"])) == names
    assert frame["candidate"].nunique() == 2 and frame["setting"].nunique() == 1


@pytest.mark.parametrize("part", ["model", "loop", "task"])
def test_other_code_around_the_optimizer_is_another_section(bench, make, part):
    chosen(bench, make, (0.80, 0.90))
    chosen(bench, make, (0.85, 0.95), base={"replica": "b"})
    rewrite_twins(bench, revisions={part: 2})
    settings = list(dict.fromkeys(load_frame(bench.write())["setting"]))
    assert settings == ["batch_size=64, steps=100", f"batch_size=64, {part} revision 2, steps=100"]


# --- one config ---


def test_a_default_that_has_changed_since_is_another_candidate(bench, make):
    """A plan says nothing of momentum; its old record does, and today's default is not what was trained."""
    chosen(bench, make, (0.80, 0.90))
    key, *_ = chosen(bench, make, (0.85, 0.95), sweep="older", base={"replica": "b"})
    rule = bench.store.record(key).config["optimizer"]
    rewrite_twins(bench, optimizer=rule | {"hyper": rule["hyper"] | {"momentum": 0.9}})
    store = bench.write()
    for point in bench.points["older"]:
        point.overrides.pop("replica", None)
    frame = load_frame(bench.write())
    assert frame["candidate"].nunique() == 2
    assert set(frame["momentum"]) == {0.9, 0.95}
    text = render(GENERAL["main_result"](View(load_rows(store))), "md")
    assert "| momentum |" in text and "| 2 |" in " ".join(text.split())  # of two settings, n=2


def test_an_old_default_of_what_is_fixed_is_another_section(bench, make):
    first, *_ = chosen(bench, make, (0.80, 0.90))
    rewrite(bench, first, config={"grad_clip": None, "precision": {"params": "bfloat16", "autocast": "none"}})
    settings = set(load_frame(bench.write())["setting"])
    assert settings == {
        "batch_size=64, steps=100",
        "batch_size=64, precision.params=bfloat16, steps=100",
    }


# --- provenance ---


def test_every_table_ends_with_where_its_numbers_are_from(demo_store):
    for name, make_table in GENERAL.items():
        text = render(make_table(View(load_rows(demo_store))), "md")
        for section in text.partition("### Legend")[0].split("### ")[1:]:
            last = section.strip().splitlines()[-1]
            assert last.startswith("- Made by ") and "code 0123456789ab, torch 2.13.0" in last, name


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"environment": {"torch": "2.9.1"}}, "torch (2.13.0 and 2.9.1)"),
        ({"environment": {"cpu": "Testium 9"}}, "machine (Testium 1 and Testium 9)"),
        ({"config": {"threads": 4}}, "threads (1 and 4)"),
        ({"environment": {"world_size": 2}}, "processes (1 and 2)"),
        ({"config": {"compile": True}}, "compile (False and True)"),
        ({"items_digest": "b" * 16}, f"items_digest ({'a' * 16} and {'b' * 16})"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mixture_that_can_change_numbers_is_marked_and_strict_refuses_it(
    bench, make, capsys, changes, told
):
    keys = chosen(bench, make, (0.80, 0.90))
    root = bench.write().root
    rewrite(bench, keys[1], items_digest="a" * 16)  # not known of the others, as if they had diverged
    assert cli.main(["table", "main_result", "--format", "md", "--root", str(root), "--strict"]) == 0
    rewrite(bench, keys[0], **changes)
    capsys.readouterr()
    assert cli.main(["table", "main_result", "--format", "md", "--root", str(root), "--strict"]) == 1
    out, err = capsys.readouterr()
    assert f"a mixture: the runs differ in {told}" in out
    assert (
        f"htbench: main_result, digits, resnet-nano (batch_size=64, steps=100): the runs differ in {told}"
        in err
    )
    assert cli.main(["table", "main_result", "--format", "md", "--root", str(root)]) == 0


@pytest.mark.parametrize("which", ["replicas", "search"])
def test_a_row_that_ran_two_versions_of_what_is_in_no_key_is_a_mixture(bench, make, capsys, which):
    """Code that a part imports unseen. Another row may run other such code."""
    ran = [{"imports": {"helper.py": digit * 12}} for digit in "12"]
    keys = chosen(bench, make, (0.80, 0.90), environment=ran[0])
    chosen(bench, make, (0.80, 0.90), "adamw", environment={"imports": {"other.py": "3" * 12}})
    words = ["table", "main_result", "--format", "md", "--root", str(bench.write().root), "--strict"]
    assert cli.main(words) == 0
    rewrite(bench, keys[0], environment=ran[1])
    if which == "search":
        rewrite(bench, keys[1], environment=ran[1])
    capsys.readouterr()
    assert cli.main(words) == 1
    told = "imports of muon (helper.py 111111111111 and helper.py 222222222222)"
    assert told in capsys.readouterr().err
    [section] = GENERAL["main_result"](View(load_rows(bench.store))).sections
    assert "mixture_cell" in [note.kind for row in section.rows for cell in row for note in cell.notes]
    assert told in "".join(str(note.danger()) for note in section.notes if note.danger())


def test_two_versions_of_our_code_with_the_same_numbers_are_told_and_no_mixture(bench, make, capsys):
    """Code that makes other numbers makes other runs: see tests/harness/config/test_revisions.py."""
    keys = chosen(bench, make, (0.80, 0.90))
    rewrite(bench, keys[0], environment={"code": "fedcba987654+3fa1c2d4"})
    words = ["table", "main_result", "--format", "md", "--root", str(bench.write().root), "--strict"]
    assert cli.main(words) == 0
    assert "code 0123456789ab and fedcba987654+3fa1c2d4," in capsys.readouterr().out


# --- time ---


def timed(bench, make, **of_muon):
    for optimizer in ("adamw", "sgdm", "muon"):
        more = of_muon if optimizer == "muon" else {}
        chosen(bench, make, (0.80, 0.90), optimizer, **more)
    return bench


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"config": {"threads": 4}}, "threads=4"),
        ({"environment": {"cpu": "Testium 9"}}, "machine=Testium 9"),
        ({"config": {"compile": True}}, "compile=True"),
        ({"environment": {"world_size": 2}}, "processes=2"),
        ({"environment": {"stack": 4}}, "stack=4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_time_measured_otherwise_than_the_others_is_marked(bench, make, changes, told):
    timed(bench, make)
    for _, record in list(bench.store.index.rows().values()):
        if record.config["optimizer"]["name"] == "muon":
            rewrite(bench, record.key, **json.loads(json.dumps(changes)))
    assert f"] measured with {told}: not comparable with the other rows" in main_result(bench)


def test_a_run_that_shared_its_cores_says_so(bench, make):
    timed(bench, make)
    for _, record in list(bench.store.index.rows().values()):
        if record.config["optimizer"]["name"] == "muon":
            rewrite(bench, record.key, timing={**record.timing, "mean": 0.01, "cpu": 0.006})
    assert "3 of 3 runs shared their cores: 6.00 ms of CPU time per step" in main_result(bench)


# --- records that were changed or lost ---


def test_a_number_edited_by_hand_does_not_count_and_nobody_is_bold(bench, make):
    keys = chosen(bench, make, (0.80, 0.90))
    chosen(bench, make, (0.50, 0.51), "adamw")
    bench.edit(keys[0], metrics=bench.store.record(keys[0]).metrics | {"test_accuracy": 0.99})
    text = main_result(bench)
    assert "1 of 2 replicas count; the rest: 1 damaged" in text and "99.00" not in text and "**" not in text


def test_a_missing_record_beside_a_finished_curve_is_not_called_not_run_yet(bench, make):
    keys = chosen(bench, make, (0.80, 0.90))
    (bench.store.run_folder(keys[0]) / "attempts" / "1.json").write_text(
        json.dumps({"owner": None, "ended": 1.0, "outcome": {"reason": "finished"}})
    )
    (bench.store.run_folder(keys[0]) / "record.json").unlink()
    bench.store.rebuild_index()
    row = load_frame(bench.write()).query(f"key == '{keys[0]}'").iloc[0]
    assert row["state"] == "damaged" and "record.json is missing" in row["reason"]


@pytest.mark.parametrize("begun", [True, False])
def test_waiting_runs_of_a_class_from_outside_belong_to_their_workload_and_candidate(bench, make, begun):
    """No table imports the class; what the task decides is known, and the rest from finished runs."""
    for name in ("adamw", "my_opt:Mine"):
        ended = "completed" if name == "adamw" or begun else "waiting"
        for lr, loss in ((0.001, 4.3), (0.003, 4.2), (0.01, 4.25)):
            state = ended if name == "adamw" or lr < 0.01 else "waiting"
            bench.add("pydocs", name, lr, metrics=make.text(loss), state=state)
        for seed in FRESH if begun else ():
            state = "completed" if name == "adamw" or seed == 1000 else "waiting"
            metrics = make.text(3.2 + seed / 1000)
            bench.add("pydocs", name, 0.003, stage=REPLICATE, seed=seed, state=state, metrics=metrics)
    for point in bench.points["demo-pydocs"]:
        del point.overrides["data_fingerprint"]  # as in a sweep file
        if bench.store.record(point.key) is not None:
            rewrite(bench, point.key, config={"data_fingerprint": fingerprint("pydocs")})
    frame = load_frame(bench.write())
    assert set(frame["setting"]) == {"batch_size=16, steps=200"}
    best = frame[(frame["lr"] == 0.003) & (frame["rule"] == "my_opt:Mine")]
    assert best["candidate"].nunique() == 1 and len(best) == (3 if begun else 1)
    [section] = GENERAL["main_result"](View(load_rows(bench.store))).sections
    kinds = [note.kind for row in section.rows for cell in row for note in cell.notes]
    assert ("replicas_count" in kinds) is begun and "budget_unequal" not in kinds
