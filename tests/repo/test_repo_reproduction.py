"""The programs that write the pages of experiments from compact records."""

import dataclasses
import json
import re
import statistics
import tarfile

import numpy as np
import pandas as pd
import pytest

from docs import reproduction_page as pages
from docs import reproduction_records as records
from htbench.harness import cli, tasks
from htbench.harness.paper import experiments
from htbench.harness.store import Store
from htbench.harness.system.environment import HOME
from htbench.results.compare.ladder import fit_ladder
from htbench.results.frames.load import load_rows
from htbench.results.tables.answer import answers
from htbench.sweeps import reproduce_card
from tests.helpers import ladders
from tests.helpers.frames import load_frame


def frame(*spans, sweep="nano-imagenet"):
    """Finished runs that began and ended at these seconds."""
    rows = [
        {
            **{"sweep": sweep, "key": f"{sweep}{start}-{end}", "state": "completed", "steps": 10.0},
            **{"task": "glyphs", "model": "vit-nano", "parameters": 111_000.0, "tokens": 0.0},
            **{"seconds_per_step": 0.1, "cpu_seconds_per_step": 0.1, "useful_seconds": float(end - start)},
            **{"machine": "Testium 1", "began": _time(start), "ended": _time(end)},
        }
        for start, end in spans
    ]
    return pd.DataFrame(rows)


def _time(seconds):
    return pd.Timestamp(seconds, unit="s", tz="UTC").isoformat()


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [(((0, 10),), 10), (((0, 10), (5, 20)), 20), (((0, 30), (5, 20), (100, 101)), 31)],
)
def test_pauses_do_not_count(spans, seconds):
    assert pages.elapsed(frame(*spans)) == seconds


def test_the_pause_of_an_interrupted_run_does_not_count():
    runs = pd.concat([frame((0, 10)), frame((5, 3600)).assign(useful_seconds=7.0)])
    assert pages.elapsed(runs) == 17 and "imagenet,2,20,17" in pages.seen(runs)


def test_what_was_seen_is_what_the_card_reads(tmp_path, monkeypatch):
    runs = pd.concat([frame((0, 5), (5, 10)), frame((10, 12), sweep="nano-cifar")])
    place = tmp_path / "seen.csv"
    place.write_text(pages.seen(runs))
    monkeypatch.setattr(reproduce_card, "SEEN", place)
    assert reproduce_card.read_paces() == {"imagenet": 0.5, "cifar": 0.2}


def test_what_was_seen_before_stays_and_waiting_for_others_does_not_count(tmp_path, monkeypatch):
    before = pages.seen(pd.concat([frame((0, 5)), frame((0, 9), sweep="nano-cifar")]))
    place = tmp_path / "seen.csv"
    place.write_text(pages.seen(frame((0, 8)).assign(seconds_per_step=0.2), before))
    monkeypatch.setattr(reproduce_card, "SEEN", place)
    assert reproduce_card.read_paces() == {"imagenet": 0.4, "cifar": 0.9}


def test_the_files_of_a_page_replace_those_before(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "old.csv").write_text("x\n")
    (tmp_path / "some" / "picture.png").write_text("")
    pages.write_files(pages.Page("some", [], []), {"main": "a,b\n"})
    assert {path.name for path in (tmp_path / "some").iterdir()} == {"main.csv", "picture.png"}


def test_what_is_written_stays_above_what_is_made():
    assert pages.below(f"# T\n\nMine.\n\n{pages.BEGIN}\n\nold\n", "new \\1\n") == (
        f"# T\n\nMine.\n\n{pages.BEGIN}\n\nnew \\1\n"
    )
    with pytest.raises(ValueError, match="lacks the line"):
        pages.below("nothing of the kind", "new")


# --- the records and the pages that are made from them ---


def test_every_experiment_has_a_page_with_a_place_for_what_is_made():
    for name in ("demo", *experiments.experiments(pages.SCALE)):
        text = (pages.FOLDER / f"{name}.md").read_text(encoding="utf-8")
        written, made, _ = text.partition(pages.BEGIN)
        assert made and len(written.split()) > 40, f"{name}: a page begins with its discussion"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return records.unpacked(tmp_path_factory.mktemp("store"), ["demo-digits"])


def test_the_records_are_a_store_that_is_whole(store):
    found = load_frame(store, ["demo-digits"])
    assert set(found["state"]) <= {"completed", "diverged"} and set(found["stage"]) == {"search", "replicate"}
    (answer,) = answers(load_rows(store, ["demo-digits"]), store)
    assert len(answer.places) == 4 and answer.seeds == (3, 3)


def test_same_runs_same_bytes(store, tmp_path):
    again = records.write(store, "demo-digits", tmp_path)
    assert again.read_bytes() == (records.PLACE / again.name).read_bytes()
    with tarfile.open(again) as archive:
        assert {name.partition("/")[0] for name in archive.getnames()} == {"store.json", "sweeps", "runs"}


def test_a_page_tells_who_is_better_and_what_could_change_that(store):
    (found,) = answers(load_rows(store, ["demo-digits"]), store)
    text = pages.answer(found)
    assert text.count("\n| ") == 6 and f"**{found.verdict}**" in text
    assert all(f"- ! {note}" in text for note in found.dangers)


def test_the_endpoint_has_a_line_for_all_places_that_says_what_they_share():
    """Intervals are the judge's, as in the answer; validation and training losses are pooled like test's."""
    rungs = [
        dataclasses.replace(one, keys=tuple(f"{one.place} {one.optimizer} {at}" for at, _ in one.row.values))
        for one in ladders.noisy(np.random.RandomState(3))
    ]
    rows = [
        {"key": key, "sweep": one.model, "stage": "replicate", "seed": at, "data_seed": order}
        | {"val_loss": loss - 0.1, "train_loss": loss - 0.2 - 0.01 * (one.optimizer == "htmuon")}
        for one in rungs
        for key, ((at, order), loss) in zip(one.keys, one.row.values.items(), strict=True)
    ]
    rows += [{"key": one.model, "sweep": one.model, "stage": "search", "data_seed": 0} for one in rungs]
    made = fit_ladder("pydocs", rungs, 50)
    text = pages.endpoint(made, pd.DataFrame(rows))
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith(("| s1", "| s2", "| s3"))]
    single, together = [line for line in lines if len(line) == 8], [line for line in lines if len(line) == 6]
    gaps = [one.to_second for one in made.entries if one.rung.optimizer == "htmuon"]
    shown = [f"{gap.value:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}]" for gap in gaps]
    assert [line[5] for line in single] == shown
    of_all = {line[1]: line for line in together if line[0] == "| s1, s2, s3"}
    assert len(together) == 9 and of_all["test"][2].endswith("of 3")
    means = {split: float(line[3].partition(" ")[0]) for split, line in of_all.items()}
    mean = statistics.fmean(gap.value for gap in gaps)
    assert means["test"] == means["validation"] == pytest.approx(mean, abs=6e-5)
    assert means["training"] == pytest.approx(mean - 0.01, abs=6e-5)
    assert float(of_all["test"][4]) <= float(of_all["test"][5].rstrip(" |"))
    assert "the 40 test documents" in text and "data order 0." in text


def same_numbers(text):
    """The text with six digits of each number: the last ones of a fit are each processor's."""
    return re.sub(r"\d+\.\d+(e-\d+)?", lambda number: f"{float(number[0]):.6g}", text)


@pytest.mark.slow
@pytest.mark.parametrize("name", pages.pages())
def test_a_page_is_what_its_records_say(name, tmp_path):
    page = pages.pages()[name]
    store = records.unpacked(tmp_path, page.sweeps, page.records)
    pictures = sorted(path.stem for path in page.place.with_suffix("").glob("*.png"))
    text, files = pages.made(page, store, load_frame(Store(tmp_path), page.sweeps), pictures)
    shown = page.place.read_text(encoding="utf-8").partition(pages.BEGIN)[2]
    tables = [line for line in shown.splitlines() if line.startswith("|")]
    assert tables == [line for line in text.splitlines() if line.startswith("|")], (
        f"python -m docs.reproduction_page {name}"
    )
    kept = {path.stem: path.read_text("utf-8") for path in page.place.with_suffix("").glob("*.csv")}
    for stem, made in dict(files).items():
        assert same_numbers(kept.pop(stem)) == same_numbers(made), f"python -m docs.reproduction_page {name}"
    assert not kept


@pytest.mark.slow
def test_the_ladder_plans_the_runs_that_were_kept(tmp_path, monkeypatch, capsys):
    """Keys last from 0.1.0 on, its records first: code that gives other keys would train the ladder anew."""
    names = records.sweeps(pages.LADDER)
    store = records.unpacked(tmp_path, names, pages.LADDER)
    (data,) = {record.config["data_fingerprint"] for record in store.records(store.keys()).values()}
    monkeypatch.setattr(tasks, "fingerprint", lambda task: data)  # another Python has other documentation
    words = [str(HOME / "sweeps" / "ladder" / f"{name}.yaml") for name in names]
    assert cli.main(["sweep", "plan", *words, "--root", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {plan["sweep"]: plan["to_run"] for plan in found} == dict.fromkeys(names, 0)
