"""The version of the code in records: a commit, and for edited code a digest that tells two edits apart."""

import subprocess

import pytest

from htbench.harness.system import environment


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A repository with one file of a package."""
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "a.py").write_text("x = 1\n")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(environment, "HOME", tmp_path)
    monkeypatch.delenv(environment.CODE_VERSION_VARIABLE, raising=False)
    return tmp_path


def version():
    environment.code_version.cache_clear()
    try:
        return environment.code_version()
    finally:
        environment.code_version.cache_clear()


def test_two_edits_are_two_versions_and_none_is_the_commit(home):
    commit = version()
    assert len(commit) == 12 and "+" not in commit
    (home / "harness" / "a.py").write_text("x = 2\n")
    first = version()
    (home / "harness" / "a.py").write_text("x = 3\n")
    second = version()
    assert {one.partition("+")[0] for one in (first, second)} == {commit}
    assert len({commit, first, second}) == 3
    (home / "harness" / "a.py").write_text("x = 1\n")
    assert version() == commit


def test_a_new_file_of_a_package_and_a_deleted_one_count(home):
    commit = version()
    (home / "harness" / "b.py").write_text("")
    new = version()
    (home / "harness" / "b.py").unlink()
    (home / "harness" / "a.py").unlink()
    assert len({commit, new, version()}) == 3


def test_files_beside_the_packages_do_not_count(home):
    commit = version()
    (home / "store").mkdir()
    (home / "store" / "record.json").write_text("{}")
    (home / "harness" / "ignored.py").write_text("")
    assert version() == commit
