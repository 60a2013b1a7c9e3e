"""The tidy frame: one row per point, right whatever became of its run."""

import pytest

from htbench.harness.errors import UsageError
from htbench.harness.store import Store
from htbench.harness.store.integrity import find_contradiction
from htbench.harness.store.points import REPLICATE, read_points, sweep_names
from htbench.results.frames.load import load_rows, tuned_columns
from tests.helpers.frames import load_frame


@pytest.mark.parametrize(("name", "edited"), [("demo_store", []), ("mixed_store", ["adam"])])
def test_the_synthetic_records_agree_with_their_curves(request, name, edited):
    store = request.getfixturevalue(name)
    records = store.records(store.keys()).values()
    wrong = [r for r in records if find_contradiction(store.run_folder(r.key), r)]
    assert [record.config["optimizer"]["name"] for record in wrong] == edited


def test_one_row_per_point_in_the_order_of_sweeps_and_plans(bench, make):
    bench.add("pydocs", "muon", 0.02, metrics=make.text(4.0))
    bench.add("pydocs", "muon", 0.01, metrics=make.text(4.1))
    bench.add("digits", "adamw", 0.003, metrics=make.image(0.9, 0.5))
    store = bench.write()
    frame = load_frame(store)
    assert list(frame["sweep"]) == ["demo-digits", "demo-pydocs", "demo-pydocs"]
    assert list(frame["lr"]) == [0.003, 0.02, 0.01]
    assert load_frame(store, ["demo-pydocs", "demo-digits"]).equals(frame)
    assert list(load_frame(store, ["demo-pydocs"])["lr"]) == [0.02, 0.01]


@pytest.mark.parametrize(
    ("outcome", "state", "reason"),
    [
        ({"state": "diverged", "steps": 7}, "diverged", "the loss was not finite"),
        ({"state": "pruned"}, "pruned", "stopped at step 100"),
        ({"state": "failed", "reason": "oom"}, "failed", "oom"),
        ({"state": "running"}, "running", ""),
        ({"state": "waiting"}, "waiting", ""),
    ],
)
def test_every_state_keeps_its_settings_and_has_no_score(bench, outcome, state, reason):
    bench.add("digits", "htmuon", 0.02, p=0.25, seed=3, **outcome)
    row = load_frame(bench.write()).iloc[0]
    assert (row["state"], row["reason"], row["score"]) == (state, reason, None)
    assert (row["task"], row["model"], row["optimizer"]) == ("digits", "resnet-nano", "htmuon")
    assert (row["lr"], row["p"], row["seed"], row["data_seed"]) == (0.02, 0.25, 3, 0)


def test_a_completed_run_brings_its_hyperparameters_metrics_and_times(bench, make):
    bench.add("pydocs", "htmuon", 0.02, p=0.125, metrics=make.text(4.0), seconds=0.5)
    row = load_frame(bench.write()).iloc[0]
    assert row["momentum"] == 0.95
    assert row["aux_betas"] == (0.9, 0.95)
    assert (row["val_loss"], row["untrained_val_loss"], row["steps"]) == (4.0, 6.93, 200)
    assert (row["seconds_per_step"], row["useful_seconds"], row["machine"]) == (0.5, 100.0, "Testium 1")
    assert row["score"] == (row["val_perplexity"], 4.0)


def test_columns_do_not_depend_on_which_run_comes_first(bench, make):
    bench.add("digits", "adamw", 0.003, metrics=make.image(0.9, 0.5))
    bench.add("digits", "htmuon", 0.02, p=0.125, state="waiting")
    columns = list(load_frame(bench.write()).columns)
    assert columns[columns.index("optimizer") + 1 :][:2] == ["lr", "p"]
    assert columns[-4:] == ["steps", "seconds_per_step", "useful_seconds", "machine"]


def test_settings_given_as_words_are_numbers_and_defaults_are_written_in(bench):
    bench.add("digits", "htmuon", "2e-2", state="waiting")
    bench.add("digits", "htmuon", 0.02, p=0.125, state="waiting")
    frame = load_frame(bench.write())
    assert list(frame["lr"]) == [0.02, 0.02]
    assert list(frame["p"]) == [0.125, 0.125]  # the default of the registry
    assert frame["candidate"].nunique() == 1


def test_candidates_are_those_of_the_plan(demo_store):
    frame = load_frame(demo_store)
    points = [p for name in sweep_names(demo_store.root) for p in read_points(demo_store.root, name)]
    pairs = set(zip(frame["candidate"], (point.candidate for point in points), strict=True))
    assert len(pairs) == frame["candidate"].nunique() == len({point.candidate for point in points})


def test_what_cannot_change_a_run_is_no_setting(bench):
    bench.add("digits", "adamw", 0.003, state="waiting", base={"device": "cpu", "evaluation.every": 10})
    bench.add("digits", "adamw", 0.003, state="waiting", seed=1)
    frame = load_frame(bench.write())
    assert set(frame["setting"]) == {"batch_size=64, steps=100"}
    assert frame["candidate"].nunique() == 1


def test_tuned_columns_are_settings_and_never_metrics(demo_store):
    tuned = tuned_columns(load_rows(demo_store))
    assert tuned[:2] == ["lr", "p"]
    assert {"momentum", "weight_decay", "routing"} < set(tuned)
    assert not {"seed", "steps", "val_loss", "optimizer"} & set(tuned)


def test_it_reads_a_record_that_the_index_has_not_seen(bench, make):
    bench.add("digits", "adamw", 0.003, metrics=make.image(0.9, 0.5), stage=REPLICATE, seed=1)
    store = bench.write()
    store.index.path.unlink()
    assert load_frame(Store(store.root))["state"].tolist() == ["completed"]


def test_an_unknown_sweep_is_named_with_the_nearest(demo_store):
    with pytest.raises(UsageError, match="'demo-digit' in the store '.*'; did you mean 'demo-digits'"):
        load_rows(demo_store, ["demo-digit"])


def test_an_empty_store_says_what_to_do(tmp_path):
    with pytest.raises(UsageError, match="htbench demo"):
        load_rows(Store(tmp_path / "nothing"))
    with pytest.raises(UsageError, match="there is no store '.*', see --root.; no sweep is known"):
        load_rows(Store(tmp_path / "nothing"), ["x"])
