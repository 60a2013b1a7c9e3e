"""Whatever happens to one file of a store, every command looks on, and no table changes without a mark.

A run that can't be trusted is named and shown as damaged. The store is a real one; each example changes one
file of a copy, by structure or by bytes, and has all that looks at stores look at it.
"""

import contextlib
import io
import json
import re
import shutil

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from htbench.harness import cli
from htbench.harness.commands import doctor
from htbench.harness.errors import EXIT_BUG, EXIT_OK, EXIT_RUN_FAILED, EXIT_USAGE
from htbench.harness.system import finding
from tests.helpers.command import Htbench
from tests.helpers.mutations import mutated

SWEEP = """
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, evaluation.every: 2, spectra.final: true}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: SPACE}}
"""
GRID = SWEEP.replace("SPACE", "[0.03, 0.1]") + "replicate: {seeds: 2}\nname: grid\n"
SEARCH = (
    SWEEP.replace("SPACE", "{low: 0.001, high: 1, log: true}")
    + "search: {mode: tpe, trials: 2}\nname: search\n"
)
LEFT = SWEEP.replace("SPACE", "[0.3]").replace("steps: 8", "steps: 9") + "name: left\n"
SUBMITTED = {"submission": "0123456789", "points": ["left"], "code": "v", "resources": "1", "runs_per_job": 1}

# Not looked at by the commands below: what is for people, and what trains.
_UNREAD = re.compile(r".*lock|log\.txt|config\.yaml|spec\.yaml|.*\.npz|manifest\.json|checkpoint\.pt")
_MARKS = re.compile(r"damaged|not run yet|not counted|not final|running|terms are lost|data=")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A grid with replicas, a search, and a run that was killed twice."""
    folder = tmp_path_factory.mktemp("mutated")
    call = Htbench(folder / "store", cwd=folder)
    for name, text in (("grid", GRID), ("search", SEARCH), ("left", LEFT)):
        (folder / f"{name}.yaml").write_text(text)
    assert [call("sweep", "run", f"{name}.yaml").returncode for name in ("grid", "search")] == [0, 0]
    for _ in range(2):
        call("sweep", "run", "left.yaml", "--workers", 1, HTBENCH_CRASH="claimed")
    line = (
        json.dumps(SUBMITTED) + "\n" + json.dumps({"submission": SUBMITTED["submission"], "job": "7"}) + "\n"
    )
    (call.root / "sweeps/left/submissions.jsonl").write_text(line)
    return call.root


def kinds(root):
    """The files of a store that are read, by their kind."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.is_file() and name.parts[0] != "code" and not _UNREAD.fullmatch(path.name):
            kind = re.sub(r"[0-9a-f]{12,}|/[0-9a-f]{2}/|[0-9]+(?=\.)", "*", str(name))
            found.setdefault(kind, []).append(name)
    return found


def said(root, *words):
    """Exit status, stdout and stderr of a command in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main([*words, "--root", str(root)])
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode().replace(str(root), "ROOT"))
    return status, *texts


LOOKS = (
    ("runs", "ls", "--all"),
    ("runs", "ls", "--all", "--json"),
    ("runs", "gc", "--dry-run", "--orphans", "--pruned"),
    ("sweep", "status"),
    *(("sweep", "status", name) for name in ("grid", "search", "left", "others")),
    ("ledger",),
    ("table", "--format", "csv"),
)


def look(root, also=()):
    """Have everything look at a store; its tables."""
    for words in (*LOOKS, *also):
        status, _, err = said(root, *words)
        assert status in (EXIT_OK, EXIT_RUN_FAILED, EXIT_USAGE), (words, err)
    for one in finding.examine(root, (doctor._store,)):
        assert "could not be looked at" not in str(one.finding), one
    status, out, err = said(root, "table", "--format", "md")
    assert status != EXIT_BUG, err
    return out if status == EXIT_OK else "", err


@pytest.fixture(scope="module")
def sound(base):
    """The store, and its tables."""
    tables, err = look(base)
    assert "sgdm" in tables and not err
    return base, tables


def check(sound, root, data, also=(), part=slice(None)):
    """Change one file, of a part of all kinds, in a copy of a store, and look at it."""
    base, tables = sound
    shutil.copytree(base, root)
    try:
        found = dict(sorted(kinds(base).items())[part])
        name = data.draw(st.sampled_from(found[data.draw(st.sampled_from(sorted(found)))]), label="file")
        (root / name).write_bytes(data.draw(mutated(base / name)))
        if data.draw(st.booleans(), label="without an index"):
            (root / "index.jsonl").unlink()
        out, err = look(root, also)
        if name.parent.name != "attempts":  # tables have states of them, and no figures
            assert out == tables or err or len(_MARKS.findall(out)) > len(_MARKS.findall(tables))
    finally:
        shutil.rmtree(root)


def test_a_damaged_replica_keeps_the_place_that_its_plan_gives_it(sound):
    """A name that is changed in its settings would else put it into a workload without a search."""
    base, tables = sound
    root = base.with_name("renamed")
    shutil.copytree(base, root)
    points = map(json.loads, (base / "sweeps/grid/points.jsonl").read_text().splitlines())
    key = next(point["key"] for point in points if point["stage"] == "replicate")
    record = root / "runs" / key[:2] / key / "record.json"
    record.write_text(record.read_text().replace('"untrained"', '"uotrained"'))
    out, _ = look(root)
    assert "1 of 2 replicas count; the rest: 1 damaged" in out and out.count("###") == tables.count("###")
    shutil.rmtree(root)


PARTS = 4  # for as many processes: each changes other kinds of files
_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
_PHASES = (Phase.generate, Phase.shrink)


@settings(max_examples=100, derandomize=True, phases=_PHASES, suppress_health_check=_QUIET)
@given(data=st.data())
def test_one_bad_file_ends_no_command_and_changes_no_table_without_a_mark(sound, data):
    check(sound, sound[0].with_name("copy"), data)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
@settings(max_examples=1000 // PARTS, derandomize=True, phases=_PHASES, suppress_health_check=_QUIET)
@given(data=st.data())
def test_the_same_at_length_with_reports(sound, part, data):
    page = ("report", "--out", str(sound[0].with_name("page.html")))
    also = [page] * (data.draw(st.integers(0, 49)) == 0)
    check(sound, sound[0].with_name("long"), data, also, slice(part, None, PARTS))
