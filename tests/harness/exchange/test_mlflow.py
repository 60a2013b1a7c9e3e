"""mlflow reads back what was exported, once, however often the export was repeated or killed."""

import shutil
from importlib.util import find_spec

import pytest

from harness.cli import main
from tests.helpers.exporting import ADAMW, ALONE, DIVERGED, IMPORTED, MUON, expected, same

# It is imported by the tests only: that takes seconds.
pytestmark = pytest.mark.skipif(find_spec("mlflow") is None, reason="mlflow is not installed")


def client(uri):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


@pytest.fixture(scope="module")
def _made(tmp_path_factory):
    """An empty database: to make its tables takes a second."""
    from harness.exchange import to_mlflow

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    to_mlflow._make_database(path)
    return path


@pytest.fixture
def uri(_made, tmp_path):
    return f"sqlite:///{shutil.copy(_made, tmp_path / 'there.db')}"


def read(uri):
    """Experiment, run and curves by key, as mlflow's client finds them."""
    tracked, found = client(uri), {}
    for experiment in tracked.search_experiments():
        for run in tracked.search_runs([experiment.experiment_id]):
            key = run.data.tags["htbench.key"]
            assert key not in found, "doubled"
            curves = {name: tracked.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
            points = {name: sorted((one.step, one.value) for one in curve) for name, curve in curves.items()}
            found[key] = experiment.name, run, points
    return found


def test_mlflow_has_every_point_once(source, export, uri):
    assert export("--to", "mlflow", "--uri", uri).startswith("exported 6 runs to 0 were there already, ")
    found = read(uri)
    assert same(expected(source.store), {key: points for key, (_, _, points) in found.items()})
    assert [found[key][0] for key in (MUON, ADAMW, ALONE)] == ["alpha", "beta", "no-sweep"]
    run = found[DIVERGED][1]
    assert run.info.run_name == f"adamw-lr3-seed0-{DIVERGED}-diverged" and run.info.status == "FINISHED"
    assert run.data.tags["htbench.status"] == "diverged"
    assert run.data.params["optimizer.lr"] == "3" and run.data.params["grad_clip"] == "null"
    assert run.info.start_time == 1769860800000 and run.info.end_time == run.info.start_time + 2000
    assert found[ADAMW][1].data.metrics["run/parameters"] == 8
    assert found[IMPORTED][1].data.params["imported"] == "others"
    assert export("--to", "mlflow", "--uri", uri).startswith("exported 0 runs to 6 were there already, ")
    assert {key: run.info.run_id for key, (_, run, _) in read(uri).items()} == {
        key: run.info.run_id for key, (_, run, _) in found.items()
    }


def test_an_export_killed_on_its_way_is_repeated(source, export, killed, uri):
    words = ("--to", "mlflow", "--uri", uri, "beta")
    calls = ("create_experiment", "create_run", "delete_run", "log_batch", "set_terminated", "set_tag")

    def patch(die):
        from mlflow import MlflowClient

        for name in calls:
            setattr(MlflowClient, name, counted(getattr(MlflowClient, name), die))

    def counted(plain, die):
        return lambda *args, **kwargs: (die(), plain(*args, **kwargs))[1]

    # In the first run before: its metrics; its mark. Then in the second: its experiment, its deletion.
    for number in (4, 6, 8, 3):
        assert killed(words, number, patch)
    assert export(*words).startswith("exported 2 runs to 1 were there already")
    found = read(uri)
    assert found.keys() == {MUON, ADAMW, DIVERGED}
    wanted = {key: expected(source.store)[key] for key in found}
    assert same(wanted, {key: points for key, (_, _, points) in found.items()})


def test_a_run_that_has_changed_is_replaced(source, export, uri, capsys):
    export("--to", "mlflow", "--uri", uri, "alpha")
    source.put(MUON, "muon", lr=0.02, metrics={"val_loss": 0.125})
    assert export("--to", "mlflow", "--uri", uri, "alpha") == (
        "exported 1 run to (1 in place of older content), 1 were there already"
    )
    found = read(uri)
    assert found[MUON][2]["val_loss"] == [(2, 0.75), (4, 0.125)]
    tracked = client(uri)
    tracked.delete_experiment(tracked.get_experiment_by_name("alpha").experiment_id)
    words = ["--root", str(source.store.root), "--to", "mlflow", "--uri", uri, "alpha"]
    assert main(["runs", "export", *words]) == 2
    assert "The experiment 'alpha' is deleted in" in capsys.readouterr().err


def test_a_file_that_is_no_database_is_told_in_a_sentence(source, tmp_path, capfd):
    (tmp_path / "text.db").write_text("This is a text, and no database at all. " * 40)
    words = ["--root", str(source.store.root), "--to", "mlflow", "--uri", f"sqlite:///{tmp_path}/text.db"]
    assert main(["runs", "export", *words]) == 1
    line = capfd.readouterr().err.splitlines()[-1]
    assert line.startswith("htbench: mlflow at ") and "not a database" in line
