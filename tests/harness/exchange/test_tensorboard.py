"""TensorBoard reads back what was exported, once, however often the export was repeated or killed."""

import os
import shutil
from importlib.util import find_spec

import pytest

from htbench.harness.cli import main
from tests.helpers.exporting import ADAMW, DIVERGED, MUON, SEED1, expected, same

pytestmark = pytest.mark.skipif(find_spec("tensorboard") is None, reason="tensorboard is not installed")


def reader_of(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    reader.Reload()
    return reader


def read(home):
    """Key -> tag -> (step, value), as TensorBoard's reader finds them in all folders below `home`."""
    found = {}
    for path in sorted(home.rglob("*tfevents*")):
        reader = reader_of(path.parent)
        key = hparams(path.parent)["htbench.key"]
        assert key not in found, "doubled"
        found[key] = {
            tag: [(e.step, e.value) for e in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]
        }
    return found


def hparams(folder):
    from tensorboard.plugins.hparams import metadata

    content = reader_of(folder).summary_metadata[metadata.SESSION_START_INFO_TAG].plugin_data.content
    values = metadata.parse_session_start_info_plugin_data(content).hparams
    return {name: getattr(value, value.WhichOneof("kind")) for name, value in values.items()}


EVENTS = "events.out.tfevents.0.htbench"


def files(home):
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_tensorboard_has_every_point_once(source, export, tmp_path):
    home = source.store.root / "tensorboard"
    assert export("--to", "tensorboard") == ("exported 5 runs to 0 were there already, 3 unfinished left out")
    assert same(expected(source.store), read(home), 1e-6)  # TensorBoard's numbers are float32
    before = files(home)
    assert export("--to", "tensorboard").startswith("exported 0 runs to 5 were there already, ")
    assert files(home) == before
    export("--to", "tensorboard", "--out", tmp_path / "elsewhere")
    assert files(tmp_path / "elsewhere") == before  # the same bytes, whenever and wherever


def test_the_run_is_named_and_filed_with_its_config(source, export):
    export("--to", "tensorboard", "beta")
    home = source.store.root / "tensorboard"
    names = {str(path.parent.relative_to(home)) for path in home.rglob(EVENTS)}
    diverged = f"beta/adamw-lr3-seed0-{DIVERGED}-diverged"
    assert names == {f"alpha/muon-lr0.02-seed0-{MUON}", f"beta/adamw-lr0.1-seed0-{ADAMW}", diverged}
    found = hparams(home / diverged)
    assert found["optimizer.lr"] == 3.0 and found["optimizer.betas"] == "[0.9,0.95]"
    assert found["grad_clip"] == "null" and found["compile"] is False
    assert found["htbench.status"] == "diverged" and found["htbench.note"] == "the loss was not finite"


def test_only_what_is_missing_is_written_whichever_sweep_wants_it(source, export):
    home = source.store.root / "tensorboard"
    assert export("--to", "tensorboard", "alpha") == "exported 2 runs to 0 were there already"
    (source.store.root / "sweeps/alpha/points.jsonl").unlink()  # only the other sweep wants MUON now
    before = files(home)
    assert export("--to", "tensorboard", "beta") == (
        "exported 2 runs to 1 were there already, 1 unfinished left out"
    )
    assert read(home).keys() == {MUON, SEED1, ADAMW, DIVERGED}
    assert before.items() <= files(home).items()


def test_what_only_the_record_has_is_left_at_the_last_step(source, export):
    export("--to", "tensorboard", "beta")
    scalars = read(source.store.root / "tensorboard")[ADAMW]
    assert scalars["run/parameters"] == [(4, 8.0)] and scalars["train_loss"] == [(4, 0.5)]
    assert scalars["val_loss"] == [(2, 0.75), (4, 0.25)]


def test_an_export_killed_at_any_instant_is_repeated(source, export, killed, tmp_path):
    home, words = tmp_path / "board", ("--to", "tensorboard", "--out", tmp_path / "board", "beta")
    export(*words)
    before = shutil.copytree(home, tmp_path / "before")
    shutil.rmtree(next(before.glob(f"beta/*{DIVERGED}*")))
    wanted = files(home)

    def patch(die):
        for name in ("fsync", "rename", "replace", "unlink", "mkdir"):
            setattr(os, name, counted(getattr(os, name), die))

    def counted(plain, die):
        return lambda *args, **kwargs: (die(), plain(*args, **kwargs))[1]

    for number in range(1, 200):
        shutil.rmtree(home)
        shutil.copytree(before, home)
        if not killed(words, number, patch):  # it came to its end
            break
        assert all(
            wanted.get(name) == content for name, content in files(home).items() if EVENTS == name[-30:]
        )
        export(*words)
        assert files(home) == wanted, number
    assert number > 3 and files(home) == wanted


def test_a_folder_that_is_a_file_is_refused(source, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    words = ["--root", str(source.store.root), "--to", "tensorboard", "--out", str(tmp_path / "file")]
    assert main(["runs", "export", *words]) == 2
    assert "can't be made" in capsys.readouterr().err
