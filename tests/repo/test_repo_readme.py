"""README.md is short, has two commands, and begins with the ladder's and the demo's answers, as recorded."""

import re
from dataclasses import replace

import pytest
from PIL import Image

from docs import readme_page as page
from docs import reproduction_records as records
from docs import split_section

TEXT = page.README.read_text(encoding="utf-8")
CI = (page.ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return records.unpacked(tmp_path_factory.mktemp("store"), page.DEMO)


@pytest.fixture(scope="module")
def found(store):
    return page._answers(store, page.DEMO)


@pytest.fixture(scope="module")
def climbed(tmp_path_factory):
    names = [name for name in page.DRAWN if name in records.sweeps(page.LADDER)]
    return page._answers(records.unpacked(tmp_path_factory.mktemp("store"), names, page.LADDER), names)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    return page.gain_in_parts(tmp_path_factory.mktemp("store"))


def test_it_is_short():
    assert 120 <= len(TEXT.splitlines()) <= 150 and len(TEXT.split()) <= 1200


def test_two_commands_install_run_and_test_and_ci_runs_them_verbatim():
    blocks = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    demo, tests = map(str.strip, blocks)
    assert (
        demo
        == "python3 -m venv .venv && .venv/bin/pip install -e . -c constraints.txt && .venv/bin/htbench demo"
    )
    assert tests == ".venv/bin/pip install -e '.[dev]' -c constraints.txt && .venv/bin/pytest -n 2"
    assert demo in CI and tests in CI and "-m docs.readme_page --root store" in CI


def test_the_answer_is_what_the_records_say(climbed, parts):
    assert page.stale(climbed, parts) == ""
    assert [one.workload[1] for one in climbed] == ["llama-s1", "llama-s2", "llama-s3"]


def test_the_parts_of_the_gain_are_those_of_the_ladders_page(parts):
    """Which has them to four digits, made from more sweeps."""
    text = (page.ROOT / "docs" / "ladder.md").read_text(encoding="utf-8")
    # Of S1 another batch has such tables, too.
    workloads = re.findall(r"^### (.*)\n([^#]*)", text, re.MULTILINE)
    ladder = "".join(table for name, table in workloads if "llama-s1, batch_size=16" not in name)
    lines = re.findall(r"^\| ([^|]+) \| \d+ \| (\S+) \[(\S+), (\S+)\] \|", ladder, re.MULTILINE)
    wanted = [*split_section.GAIN, *list(split_section.PRIMARY)[:3]]
    expected = [float(x) for name in wanted for question, *gap in lines if question == name for x in gap]
    printed = [float(x) for gap in re.findall(r"([+-]\S+) \[(\S+), (\S+)\]", parts) for x in gap]
    assert len(printed) == 36 and printed == pytest.approx(expected, abs=6e-4)


def test_the_answer_comes_first_with_every_row(found):
    before, between, _ = page._parts(TEXT)
    assert len(before.split()) < 80 and [one.workload[0] for one in found] == ["pydocs", "digits"]
    assert all(re.search(rf"^{one.rank} +{one.name} ", between, re.MULTILINE) for one in found[0].places)


def test_a_stale_answer_is_told(climbed, parts, tmp_path, monkeypatch, capsys):
    copy = tmp_path / "README.md"
    monkeypatch.setattr(page, "README", copy)
    for old in ("$ htbench table", "test loss in nats"):
        copy.write_text(TEXT.replace(old, f"{old}s"), encoding="utf-8")
        assert page.stale(climbed, parts).startswith("The answers in README.md are not what the records say")
    assert page.main([]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_picture_says_what_it_shows(found, tmp_path):
    (tmp_path / "a.png").write_bytes(page.png(found))
    with Image.open(tmp_path / "a.png") as picture:
        shown = picture.info["Description"]
        assert picture.width > 1300 and page.png(found) == (tmp_path / "a.png").read_bytes()
    assert all(place.value.text() in shown for one in found for place in one.places)


def test_the_same_demo_ends_as_told_whatever_its_numbers(store, found, monkeypatch):
    assert page.differs(store, store) == ""
    other = [replace(one, places=[replace(place, gap=None) for place in one.places]) for one in found]
    told = iter([found, other])
    monkeypatch.setattr(page, "_answers", lambda *_: next(told))
    assert page.differs(store, store) == ""


def test_a_demo_that_ends_otherwise_is_told(store, found, monkeypatch):
    fewer = [replace(found[0], places=found[0].places[1:]), *found[1:]]
    told = iter([found, fewer, found, found[:1]])
    monkeypatch.setattr(page, "_answers", lambda *_: next(told))
    assert page.differs(store, store).startswith("pydocs, llama-nano, ")
    assert page.differs(store, store).startswith("digits, resnet-nano, ")
