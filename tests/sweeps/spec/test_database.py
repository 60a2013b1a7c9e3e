"""Passwords of databases: refused in files, taken from the environment, never stored and never printed."""

import dataclasses
import json
import os
import re

import pytest

from htbench.harness import cli
from htbench.harness.errors import EXIT_USAGE, UsageError
from htbench.harness.store.points import POINTS, SPEC
from htbench.sweeps.plan import slots
from htbench.sweeps.plan.planned import search_points
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.spec import database, sweep_file
from htbench.sweeps.studies import storage

TEXT = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, optimizer.name: sgdm}
space: {optimizer.lr: {low: 0.01, high: 0.1}}
search: {mode: random, trials: 2, storage: 'URL'}
"""
SECRET = "geheim"


def load(write_spec, url):
    return sweep_file.load(write_spec(TEXT.replace("URL", url)))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:geheim@host/name",
        "postgresql+psycopg://me:ge/h:e@im@host:1/name",
        "postgresql://:geheim@host/name",
        "postgresql://me:${oc.env:A}geheim@host/name",
        "postgresql://me:${oc.env:A,geheim}@host/name",
        "${oc.env:A,'postgresql://me:geheim@host/name'}",
        "postgresql://host/name?user=me&password=geheim",
        "postgresql://host/name?pass%77ord=geheim",
        "postgresql://host/name?sslmode=require&sslpassword=geheim",
        "mysql://host/name?auth_token=geheim",
        "sqlite://me:geheim@/a.db",
    ],
)
def test_a_password_in_a_file_is_refused_and_not_repeated(tmp_path, capsys, write_spec, url):
    path = write_spec(TEXT.replace("URL", url.replace("'", "''")))
    root = tmp_path / "store"
    assert cli.main(["sweep", "run", str(path), "--root", str(root)]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "~/.pgpass" in said and "${oc.env:" in said and said.count("\n") == 1
    assert not re.search("geheim|ge/h", said) and not root.exists()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@host:5432/name",
        "postgresql://host/name?sslmode=require&passfile=/home/me/.pgpass",
        "postgresql://[::1]:5432/name",
        "${oc.env:A}",
        "postgresql://${oc.env:A}:${oc.env:B}@host:${oc.env:C}/name?password=${oc.env:B}",
    ],
)
def test_what_has_no_password_is_taken_as_written(write_spec, url):
    assert load(write_spec, url).search.storage == url


@pytest.mark.parametrize(
    "url",
    ["${oc.env:HTBENCH_DB}", "postgresql://me:${oc.env:HTBENCH_PW}@host:1/name?token=${oc.env:HTBENCH_PW}"],
)
def test_what_the_environment_says_reaches_no_file(tmp_path, monkeypatch, write_spec, url):
    monkeypatch.setenv("HTBENCH_DB", f"postgresql://me:{SECRET}@host:1/name?token={SECRET}")
    monkeypatch.setenv("HTBENCH_PW", SECRET)
    spec = load(write_spec, url)
    write_plan(tmp_path, spec, search_points(spec))
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "tiny.yaml"]
    assert {path.name for path in files} >= {SPEC, POINTS, "study.json"}
    assert not [path for path in files if SECRET in path.read_text()]
    (study,) = slots.studies(spec)
    assert database.resolved(study.storage) == f"postgresql+psycopg://me:{SECRET}@host:1/name?token={SECRET}"
    assert SECRET not in database.masked(database.with_driver(study.storage))
    (stored,) = tmp_path.rglob("study.json")
    assert (
        slots.read_study(tmp_path, "tiny", study.name) == study
        and json.loads(stored.read_text())["storage"] == url
    )


@pytest.mark.parametrize("said", [None, "geheim", "sqlite:///geheim.db", "nosuch://me:geheim@host/name"])
def test_an_environment_without_a_url_is_one_sentence(tmp_path, monkeypatch, capsys, write_spec, said):
    monkeypatch.delenv("HTBENCH_DB", raising=False)
    if said is not None:
        monkeypatch.setenv("HTBENCH_DB", said)
    path = write_spec(TEXT.replace("URL", "${oc.env:HTBENCH_DB}"))
    assert cli.main(["sweep", "run", str(path), "--root", str(tmp_path / "store")]) == EXIT_USAGE
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and SECRET not in err
    assert "search.storage" in err


def test_a_driver_does_not_repeat_a_password(monkeypatch, write_spec):
    """Whatever it says of the URL that it got."""
    url = "postgresql://me:ge%20heim@host/name?password=x1y2"
    said = f"can't connect to {url} as me with 'ge heim' or x1y2"
    assert database.without_secrets(said, url) == "can't connect to *** as me with '***' or ***"
    (study,) = slots.studies(load(write_spec, "postgresql://host/name"))
    study = dataclasses.replace(study, storage=url)
    monkeypatch.setattr(storage, "RDBStorage", lambda url: (_ for _ in ()).throw(ValueError(said)))
    with pytest.raises(UsageError) as caught:
        storage.write_to_database(study, lambda storage: None, [], False)
    assert not re.search("ge%20heim|ge heim|x1y2", str(caught.value))


@pytest.mark.parametrize("where", ["resources:", "blocks:\n  - name: a\n    resources:"])
def test_lines_for_the_script_of_jobs_take_nothing_from_here(write_spec, where):
    """The script is kept in the store."""
    text = TEXT.replace(", storage: 'URL'", "") + f"{where} {{setup: ['export TOKEN=${{oc.env:HOME}}']}}\n"
    with pytest.raises(UsageError, match="write \\$NAME"):
        sweep_file.load(write_spec(text))
    spec = sweep_file.load(write_spec(text.replace("${oc.env:HOME}", "$HOME")))
    assert spec.blocks[0].resources.setup == ("export TOKEN=$HOME",)


def test_a_stored_config_does_not_learn_what_the_environment_holds(tmp_path, monkeypatch, capsys, tiny):
    """A store of somebody else may ask for it, and what is listed or reported is passed on."""
    monkeypatch.setenv("HTBENCH_TOKEN", SECRET)
    folder = tmp_path / "runs" / "01" / "0123456789ab"
    folder.mkdir(parents=True)
    lines = [f"{name}: {json.dumps(value)}" for name, value in tiny.items()]
    (folder / "config.yaml").write_text(
        "\n".join(lines).replace(str(tiny["model"]), "${oc.env:HTBENCH_TOKEN}")
    )
    (folder / "attempts").mkdir()
    for words in (
        ["runs", "ls", "--all"],
        ["runs", "ls", "--all", "--json"],
        ["report", "--out", str(tmp_path / "out")],
    ):
        cli.main([*words, "--root", str(tmp_path)])
        printed = capsys.readouterr()
        assert SECRET not in printed.out + printed.err
    for path in (tmp_path / "out").rglob("*") if os.path.isdir(tmp_path / "out") else ():
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()
