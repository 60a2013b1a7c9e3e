"""The cost card: which runs share a class, what finished runs and measurements tell, what will not fit."""

import dataclasses
import json

import pytest

from htbench.harness import cli, tasks
from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.cost.from_runs import from_records
from htbench.harness.cost.probe import NotProbedError
from htbench.harness.cost.run_class import Cost, count_steps, passes, run_class
from htbench.harness.show.note import Note
from htbench.harness.store import Store, curve
from htbench.harness.store.layout import cache_folder
from htbench.harness.train import run
from htbench.sweeps.plan import search_size
from htbench.sweeps.plan.search_size import Chance
from htbench.sweeps.screens import cost_card, plan
from htbench.sweeps.screens.cost_card import SHORT, Costs, Work, group_runs
from htbench.sweeps.spec import sweep_file as specs
from htbench.sweeps.spec.resources import Resources
from tests.helpers.json_fields import promised

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1]}}
replicate: {seeds: 2}
"""
SEEN = Cost(
    parameters=1000, step=2.0, evaluation=10.0, startup_seconds=10.0, peak_memory=4 << 30, processor="Testium"
)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


# --- classes ---


def changed(tiny, **values):
    return run_class(resolve_config(tiny | {"optimizer.name": "htmuon", **values}))


def test_what_changes_the_numbers_and_not_the_work_is_one_class(tiny):
    same = [{"optimizer.lr": 0.3}, {"optimizer.p": 0.2}, {"seed": 4}, {"steps": 9}, {"evaluation.every": 2}]
    assert {changed(tiny, **values) for values in same} == {changed(tiny)}


@pytest.mark.parametrize(
    "other",
    [
        {"batch_size": 32},
        {"optimizer.interval": 7},
        {"optimizer.spectral": "svd_power"},
        {"precision.autocast": "bfloat16"},
        {"micro_batch": 8},
    ],
    ids=str,
)
def test_what_changes_the_work_is_another_class(tiny, other):
    assert changed(tiny, **other) != changed(tiny)


def test_a_record_is_of_the_class_of_its_config(tiny, store):
    config = resolve_config(tiny | {"optimizer.name": "htmuon"})
    assert run_class(run.run(resolved(config), store).to_json()["config"]) == run_class(config)


# --- from finished runs ---


@pytest.mark.parametrize("evaluation", [{}, {"evaluation.every": 3, "evaluation.untrained": True}], ids=str)
def test_passes_are_what_the_loop_makes(tiny, store, evaluation):
    config = resolve_config(tiny | evaluation)
    record = run.run(resolved(config), store)
    rows = curve.read(store.run_folder(record.key) / "metrics.jsonl")
    made = sum("val_loss" in row or "test_loss" in row for row in rows)
    assert passes(record.steps, config.evaluation.every, config.evaluation.untrained) == made


def test_finished_runs_tell_the_time_of_the_next(tiny, store):
    records = [run.run(resolved(resolve_config(tiny | {"seed": seed})), store) for seed in (0, 1, 2)]
    (found,) = from_records(store, records).values()
    assert found.runs == 3 and found.parameters == records[0].cost["parameters"]
    steps = sorted(record.useful_seconds / record.steps for record in records)
    assert found.step == steps[1]
    attempt = store.files(records[0].key).attempt(1)
    attempt.write_text(json.dumps(store.attempt(records[0].key, 1) | {"began": 0.5, "ended": 60.5}))
    (one,) = from_records(store, records[:1]).values()
    assert one.seconds(resolve_config(tiny), 8) == pytest.approx(60), "from begin to end"
    again = resolve_config(tiny | {"evaluation.every": 1})
    assert one.seconds(again, 8) > 60, "more evaluations take longer"


def test_the_processor_with_most_runs_counts(tiny, store):
    record = run.run(resolved(resolve_config(tiny)), store)
    gpu = dataclasses.replace(record, environment={"gpu": "Fast"}, useful_seconds=0.008)
    (found,) = from_records(store, [gpu, record, gpu]).values()
    assert (found.processor, found.gpu, found.runs, found.step) == ("Fast", True, 2, 0.001)
    diverged = dataclasses.replace(record, status="diverged", steps=1)
    assert from_records(store, [diverged]) == {}, "the first steps are slower"


def test_epochs_are_told_in_steps_by_the_data(tiny, store, monkeypatch):
    config = resolve_config(
        {name: value for name, value in tiny.items() if name != "steps"} | {"epochs": 0.05}
    )
    cache = cache_folder(store.root)
    assert count_steps(config, cache) == run.run(resolved(config), store).steps
    monkeypatch.setattr(tasks, "train_size", lambda *_, **__: None)
    assert count_steps(config, cache) is None, "a task that does not tell it"
    assert count_steps(resolve_config(tiny), cache) == tiny["steps"]


# --- measured ---


def test_a_few_steps_tell_what_no_run_tells(tiny, store):
    store.root.mkdir()
    works = group_runs([(resolve_config(tiny | {"steps": 3000}), Resources())])
    (row,) = Costs(store, measure=True).make_rows(works)
    assert row.cost is not None, row.why
    assert (
        row.cost.runs == 0 and row.cost.step > 0 and row.cost.evaluation > 0 and row.cost.startup_seconds > 0
    )
    assert 100 << 20 < row.cost.peak_memory < 4 << 30, "torch alone takes a hundred megabytes"
    assert row.cost.parameters > 0 and row.seconds_per_run > 3000 * row.cost.step
    assert not list(store.root.glob("runs")), "it is no run of the store"


@pytest.mark.slow
def test_without_a_store_planning_makes_none(htbench, write_spec):
    done = htbench("sweep", "plan", write_spec(SPEC), "steps=1000")
    assert done.returncode == 0 and "ms/step" in done.stdout, done.stderr
    assert "measuring digits resnet-nano sgdm" in done.stderr and not htbench.root.exists()


def test_what_cannot_be_measured_says_why_beside_its_points(store, write_spec, monkeypatch):
    def fail(*_):
        raise NotProbedError("The disk is full.")

    monkeypatch.setattr(cost_card, "probe", fail)
    spec = specs.load(write_spec(SPEC), ["steps=3000"])
    view = plan.preview_sweep(store, spec, Costs(store, measure=True))
    card, points = plan.make_report([view], with_points=True).sections
    assert [row[1].value for row in points.rows] == ["waiting", "waiting"]
    (note,) = [note for note in card.notes if note.kind == "not_known_why"]
    assert note["why"] == Note("measuring_failed", error="The disk is full.")


def test_nothing_is_measured_unless_wanted_or_on_the_wrong_machine(tiny, store, monkeypatch):
    monkeypatch.setattr(cost_card, "probe", None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    config = resolve_config(tiny)
    (row,) = Costs(store, measure=False).make_rows(group_runs([(config, Resources())]))
    assert (row.cost, row.seconds, row.why) == (None, None, Note("not_measured"))
    (row,) = Costs(store, measure=True).make_rows(group_runs([(config, Resources(gpus_per_node=1))]))
    assert row.why == Note("no_gpu_to_measure")


@pytest.mark.parametrize(
    ("more", "resources", "short"),
    [
        ({}, Resources(), True),
        ({"steps": 900}, Resources(), False),
        ({"batch_size": 50_000}, Resources(), False),
        ({"steps": None, "epochs": 1.0}, Resources(), False),
        ({"model": "resnet18"}, Resources(), False),
        ({}, Resources(mem="1G"), False),  # too little?
    ],
)
def test_runs_that_are_short_for_sure_are_not_measured(tiny, store, monkeypatch, more, resources, short):
    """Ten of them take less than the measurement took: 25 seconds a class."""
    measured = []
    monkeypatch.setattr(cost_card, "probe", lambda *words: measured.append(words) or SEEN)
    config = dataclasses.replace(resolve_config(tiny), **more)
    other = resolve_config(tiny | {"optimizer.name": "muon"})
    works = group_runs([(config, resources)] * 3 + [(other, Resources())])
    rows = Costs(store, measure=True).make_rows(works)
    assert [row.why == SHORT for row in rows] == [short] * 2 and len(measured) == (0 if short else 2)


# --- what is to run ---


def test_replicas_to_come_are_among_the_runs_to_run(store, write_spec, tiny):
    spec = specs.load(write_spec(SPEC))
    view = plan.preview_sweep(store, spec, Costs(store, measure=False))
    assert (len(view.planned), view.facts.replicas_to_come, view.facts.to_run) == (2, 2, 4)
    for lr in (0.03, 0.1):
        run.run(
            resolved(resolve_config(spec.base | {"optimizer.name": "sgdm", "optimizer.lr": lr, "seed": 0})),
            store,
        )
    view = plan.preview_sweep(store, spec, Costs(store, measure=False))
    assert (len(view.planned), view.facts.replicas_to_come, view.facts.to_run) == (4, 0, 2)
    (row,) = view.facts.card
    assert row.cost.runs == 2 and view.facts.seconds == pytest.approx(2 * row.seconds_per_run)


def test_the_plan_as_json_has_all_of_it(store, write_spec, capsys, monkeypatch):
    monkeypatch.setattr(cost_card, "probe", lambda *_: SEEN)
    spec = write_spec(SPEC + "resources: {mem: 1M}\n")
    assert cli.main(["sweep", "plan", str(spec), "--json", "--root", str(store.root)]) == 0
    (view,) = json.loads(capsys.readouterr().out)
    assert view["states"] == {"waiting": 2} and view["to_run"] == 4 and view["replicas_to_come"] == 2
    promised("sweep plan", [view])
    (row,) = view["card"]
    assert (row["steps"], row["runs"]) == (8, 4)
    assert view["seconds"] == pytest.approx(4 * row["seconds_per_run"])
    assert "mem=1M is less" in row["warnings"][0]
    assert [point["overrides"]["optimizer.lr"] for point in view["points"]] == [0.03, 0.1]


def test_a_search_is_told_how_often_one_of_its_size_finds_the_order(store, write_spec, monkeypatch):
    sizes = [Chance(2, 1, 0.7, 0.012), Chance(2, 3, 0.72, 0.01), Chance(3, 1, 0.8, 0.008)]
    monkeypatch.setattr(search_size, "read_chances", lambda: sizes)

    def read_note(text):
        view = plan.preview_sweep(store, specs.load(write_spec(text)), Costs(store, measure=False))
        notes = plan.make_report([view]).sections[0].notes
        return [note.fields for note in notes if note.kind == "search_size"]

    other = "  - {name: muon, set: {optimizer.name: muon}, space: {optimizer.lr: [0.01, 0.02]}}\n"
    two_rows = SPEC.replace("replicate:", f"{other}replicate:")
    assert read_note(two_rows) == [dataclasses.asdict(sizes[0])] and read_note(SPEC) == []
    assert read_note(two_rows + "seeds: [0, 1, 2]\n") == [dataclasses.asdict(sizes[1])]
    one_row = SPEC.replace("optimizer.lr:", "model: [resnet-nano, vit-nano], optimizer.lr:")
    assert read_note(one_row) == [], "two models, and no rows to bring into an order"


# --- what will not fit ---


@pytest.mark.parametrize(
    ("resources", "settings", "wanted"),
    [
        ({"timeout_min": 60}, {}, []),
        ({"mem": "4G"}, {}, []),
        ({"mem": "0"}, {}, []),
        ({"mem": "4095"}, {}, [("run_needs_memory", {"needed": 4 << 30, "mem": "4095"})]),
        ({"timeout_min": 5}, {}, []),  # a run of 220 s is done before its first checkpoint
        ({"gpus_per_node": 1}, {}, [("cost_of_cpu", {"processor": "Testium"})]),
        # 200 s of steps and 20 s of evaluations; of 60 s 6 are to save in and 10 to start in.
        ({"timeout_min": 1}, {"checkpoint.every_steps": 10}, [("run_is_requeued", {"requeues": 4})]),
        (
            {"timeout_min": 1},
            {},
            [("run_is_requeued", {"requeues": 4}), ("checkpoint_too_late", {"seconds": 310.0, "minutes": 1})],
        ),
        (
            {"timeout_min": 1, "signal_delay_s": 1},
            {"checkpoint.every_steps": 10, "evaluation.every": 50},
            [("run_is_requeued", {}), ("step_outlasts_warning", {"seconds": 12.0, "delay": 1})],
        ),
        ({"timeout_min": 1, "signal_delay_s": 49}, {}, [("limit_too_short", {"minutes": 1})]),
    ],
    ids=str,
)
def test_warnings(tiny, resources, settings, wanted):
    config = resolve_config(tiny | {"steps": 100} | settings)
    work = Work(run_class(config), config, Resources(**resources), 3)
    notes = cost_card.find_warnings(work, SEEN, SEEN.seconds(config, 100))
    assert [note.kind for note in notes] == [kind for kind, _ in wanted]
    for note, (_, fields) in zip(notes, wanted, strict=True):
        assert note.fields.items() >= fields.items()
