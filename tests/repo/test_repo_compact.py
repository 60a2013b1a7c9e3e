"""Compact records: what they leave out, and that nothing that is told of the runs changes by it."""

import io
import json
import lzma
import tarfile
import tempfile

import numpy as np
import pytest

from docs import reproduction_records as records
from htbench.harness import cli
from htbench.harness.errors import UsageError
from htbench.harness.store import Store, compact, curve, items
from htbench.harness.store.integrity import find_contradiction
from htbench.harness.store.points import REPLICATE, SEARCH, Point, read_points, write_points
from htbench.harness.system.atomic import write_text
from htbench.results.frames.load import load_rows
from tests.helpers.command import TINY
from tests.helpers.frames import plot
from tests.helpers.stored_runs import put

SWEEP = "demo-pydocs"  # of text, with fresh seeds, trained for 250 steps


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return records.unpacked(tmp_path_factory.mktemp("whole"), [SWEEP])


@pytest.fixture(scope="module")
def place(whole, tmp_path_factory):
    """The folder with the archive of its records, in brief."""
    return records.write(whole, SWEEP, tmp_path_factory.mktemp("records"), points=50).parent


@pytest.fixture(scope="module")
def brief(place, tmp_path_factory):
    """A store that has imported it."""
    root = tmp_path_factory.mktemp("brief") / "store"
    assert cli.call(["runs", "import", str(place), "--root", str(root)]) == 0
    return Store(root)


def test_tables_say_the_same_byte_for_byte(whole, brief, capsys):
    for words in (["main_result", "--notes", "--wide"], ["main_result", "--json"], ["lr_grid", "--json"]):
        said = []
        for store in (whole, brief):
            assert cli.call(["table", *words, "--sweep", SWEEP, "--root", str(store.root)]) == 0
            said.append(capsys.readouterr().out.replace(str(store.root), "ROOT"))
        assert said[0] == said[1] and len(said[0]) > 100


def test_a_thinned_curve_still_vouches_for_its_record(brief):
    trained = 0
    for key in brief.keys():
        record, files = brief.record(key), brief.files(key)
        assert find_contradiction(files.path, record) is None
        rows = [row for row in curve.read(files.metrics) if "loss" in row]
        if record.status == "completed":
            trained += 1
            assert len(rows) == 50 and sum(row["updates"] for row in rows) == record.steps
            record.metrics["val_loss"] *= 1.001
            assert find_contradiction(files.path, record).kind == "metric_differs"
    assert trained > 40


def test_its_figure_has_no_holes_and_nearly_the_same_averages(whole, brief):
    for panels in zip(*(plot("loss")[0](load_rows(store), store) for store in (whole, brief)), strict=True):
        before, after = (
            {name: own.set_index("x")["y"].astype(float) for name, own in one.frame.groupby("series")}
            for one in panels
        )
        assert before.keys() == after.keys() and len(after) == 4
        for optimizer, short in after.items():
            full = before[optimizer]
            apart = (short - full.loc[short.index]).abs().iloc[5:]
            assert len(short) == 50 and apart.max() < 0.1 < full.std(), optimizer


def archive_sweep(store, name, keys, folder):
    """Archive a sweep with one run for each stage."""
    (store.root / "sweeps" / name).mkdir(parents=True)
    write_text(store.root / "sweeps" / name / "spec.yaml", f"name: {name}\n")
    write_points(store.root, name, [Point(name, "b", stage, key, {}) for stage, key in keys.items()])
    records.write(store, name, folder)


def test_text_is_summed_by_document_for_fresh_seeds_only(tmp_path):
    whole, brief = (Store(tmp_path / name) for name in ("whole", "brief"))
    given = {"task": "pydocs", "model": "llama-nano"}
    stages = {SEARCH: put(whole.root, **given), REPLICATE: put(whole.root, seed=1, **given)}
    archive_sweep(whole, "text", stages, tmp_path / "records")
    assert cli.call(["runs", "import", str(tmp_path / "records"), "--root", str(brief.root)]) == 0
    for point in read_points(whole.root, "text"):
        record = whole.record(point.key)
        kept, short = (items.read(store.files(point.key), record) for store in (whole, brief))
        if point.stage != REPLICATE:
            assert short is None
            continue
        assert len(short.sums) == len(np.unique(kept.clusters)) < len(kept.sums)
        again, short = kept.by_document(), short.by_document()
        for name in ("sums", "counts", "clusters"):
            assert np.array_equal(getattr(again, name), getattr(short, name)), name
        assert (short.digest, record.test_items) == (kept.digest, len(kept.sums))


def test_same_runs_same_bytes_and_once_more_is_the_same(whole, brief, place, tmp_path):
    (first,) = place.iterdir()
    assert records.write(whole, SWEEP, tmp_path, points=50).read_bytes() == first.read_bytes()
    with tarfile.open(records.write(brief, SWEEP, tmp_path, points=50)) as again, tarfile.open(first) as once:
        for member in once:
            if member.name.endswith((".bin", "metrics.jsonl")):
                assert again.extractfile(member.name).read() == once.extractfile(member).read()
    assert first.stat().st_size < 1500 * len(brief.keys())


# --- the import ---


def test_another_archive_extends_a_store_and_the_same_one_does_not(tmp_path, capsys):
    keys = []
    for sweep, lr in (("one", 0.1), ("two", 0.2)):
        other = Store(tmp_path / sweep)
        keys.append(put(other.root, lr=lr))
        archive_sweep(other, sweep, {REPLICATE: keys[-1]}, tmp_path / "both")
    for place, taken in (("both/one.tar.xz", 1), ("both", 1), ("both", 0)):
        assert cli.call(["runs", "import", str(tmp_path / place), "--root", str(tmp_path / "store")]) == 0
        assert f"imported {taken} run" in capsys.readouterr().out
    assert set(Store(tmp_path / "store").keys()) == set(keys)


def test_several_are_taken_in_their_order(tmp_path, capsys):
    for name, accuracy in (("one", 0.9), ("two", 0.8)):
        key = put(tmp_path / name, accuracy=accuracy)
    put(tmp_path / "two", seed=2)
    one, two, root = (str(tmp_path / name) for name in ("one", "two", "ours"))
    assert cli.call(["runs", "import", one, two, tmp_path.name, "--root", root]) == 2
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"{one}: imported 1 run (1 completed); 0 are here already",
        f"{two}: imported 1 run (1 completed); 0 are here already",
    ]
    assert f"conflict: run {key}" in err and f"'{tmp_path.name}' is no store" in err
    assert Store(tmp_path / "ours").record(key).metrics["val_accuracy"] == 0.9


@pytest.mark.parametrize("content", [b"", b"no archive", None], ids=["empty", "text", "cut"])
def test_what_is_no_archive_is_one_sentence(content, place, tmp_path, capsys):
    (first,) = place.iterdir()
    path = tmp_path / "broken.tar.xz"
    path.write_bytes(first.read_bytes()[:5000] if content is None else content)
    assert cli.call(["runs", "import", str(path), "--root", str(tmp_path / "store")]) == 2
    said = capsys.readouterr().err
    assert "can't be read as an archive of compact records" in said and said.count("\n") == 1


def test_an_archive_of_a_stranger_writes_only_into_the_store(tmp_path):
    path = tmp_path / "evil.tar.xz"
    with tarfile.open(path, "w:xz") as archive:
        for name in ("../out", "/tmp/htbench-out", "runs/../../out", "runs/ab/ok", "code/x.py"):
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
        link = tarfile.TarInfo("runs/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    compact.unpack(path, tmp_path / "in" / "store")
    found = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if not one.is_dir())
    assert found == ["evil.tar.xz", "in/store/runs/ab/ok"]


def header(name="runs/ab/x", size=0, kind=tarfile.REGTYPE, content=b""):
    """A member with a size that is told, whatever follows."""
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT) + content.ljust(-(-len(content) // 512) * 512, b"\0")


MALFORMED = {
    "more than it has": (header(size=10**15), "wrong"),
    "less than nothing": (header(size=-512), "wrong"),
    "sparse": (header(kind=tarfile.GNUTYPE_SPARSE), "wrong"),
    "long header": (header(size=5000, kind=tarfile.XHDTYPE, content=b" " * 5000), "too long"),
    "deep": (header("runs/" + "a/" * 40 + "x"), "no file of a store"),
    "long": (
        header(size=300, kind=tarfile.GNUTYPE_LONGNAME, content=b"runs/" + b"a" * 295) + header(),
        "no file",
    ),
    "a file and a folder": (header("runs/ab") + header("runs/ab/x"), "a file and a folder"),
    "odd letters": (header("runs/ab/\udcff"), "utf-8"),
    "half a header": (header()[:100], "truncated"),
    "a wrong sum": (header().replace(b"ustar", b"USTAR"), "bad checksum"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_malformed_is_one_sentence_and_leaves_nothing(what, tmp_path, capsys, monkeypatch):
    content, why = MALFORMED[what]
    path, temporary = tmp_path / "bad.tar.xz", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    path.write_bytes(
        lzma.compress(header("store.json") + content + bytes(1024)[: 1024 * (len(content) > 511)])
    )
    assert cli.call(["runs", "import", str(path), "--root", str(tmp_path / "store")]) == 2
    said = capsys.readouterr().err
    assert f"'{path}' can't be read as an archive" in said and why in said and said.count("\n") == 1
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("bound", ["LARGEST", "FILES"])
def test_what_an_archive_may_hold_is_bounded_before_a_file_is_written(bound, tmp_path, monkeypatch):
    first = records.PLACE / f"{SWEEP}{compact.SUFFIX}"
    monkeypatch.setattr(compact, bound, {"LARGEST": 1 << 20, "FILES": 100}[bound])
    with pytest.raises(UsageError, match="more than 1 MB|more than 100 members"):
        compact.unpack(first, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_archives_of_any_tar_are_read(kind, tmp_path):
    long = "sweeps/" + "n" * 90 + "/slots/" + "o" * 60 + "/1.json"
    with tarfile.open(tmp_path / "a.tar.xz", "w:xz", format=kind) as archive:
        folder = tarfile.TarInfo("runs")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in ((long, b"{}"), ("runs/ab/x", b"y" * 1000), ("store.json", b"")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    compact.unpack(tmp_path / "a.tar.xz", tmp_path / "out")
    files = {
        str(path.relative_to(tmp_path / "out")): path for path in tmp_path.glob("out/**/*") if path.is_file()
    }
    assert set(files) == {long, "runs/ab/x", "store.json"} and files["runs/ab/x"].read_bytes() == b"y" * 1000


@pytest.mark.slow
def test_nothing_is_trained_again_that_was_imported(tmp_path):
    sweep = {
        "name": "part",
        "base": TINY | {"steps": 3},
        "blocks": [{"name": "sgdm", "space": {"optimizer.lr": [0.05, 0.1, 0.2]}}],
        "search": {"mode": "refine", "trials": 4},
        "replicate": {"seeds": 2},
    }
    file = tmp_path / "part.yaml"
    file.write_text(json.dumps(sweep))
    ran = []
    for root in (tmp_path / "theirs", tmp_path / "ours"):
        if ran:
            archive = records.write(Store(tmp_path / "theirs"), "part", tmp_path, points=50)
            assert cli.call(["runs", "import", str(archive), "--root", str(root)]) == 0
        assert cli.call(["sweep", "run", str(file), "--workers", "1", "--root", str(root)]) == 0
        ran.append({key: Store(root).record(key).ended for key in Store(root).keys()})
    assert ran[0] == ran[1] and len(ran[0]) >= 5
