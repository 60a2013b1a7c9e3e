"""The wheel holds the five packages with all their data files and the command, and nothing of the tests."""

import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ["harness", "sweeps", "optimizers", "models", "results"]
PACKAGE = ROOT / "src" / "htbench"  # what is imported: in a clone it has links to the packages


def shipped() -> set[str]:
    """Every file of the packages that belongs into the wheel, by its place in the repository."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    files += [path for path in PACKAGE.iterdir() if path.is_file()]
    return {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}


def test_the_wheel_is_made_of_the_five_packages():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[tool.hatch.build.targets.wheel]\n")[2].partition("\n[")[0]
    files = sorted(path.relative_to(ROOT).as_posix() for path in PACKAGE.iterdir() if path.is_file())
    assert section.strip() == "only-include = " + str([*PACKAGES, *files]).replace("'", '"')
    assert {
        path.name: path.resolve() for path in PACKAGE.iterdir() if path.is_dir() and path.is_symlink()
    } == {name: ROOT / name for name in PACKAGES}


def test_every_package_says_that_it_is_typed():
    assert {f"{package}/py.typed" for package in PACKAGES} <= shipped()


def test_patterns_of_gitignore_are_anchored():
    """Hatchling leaves out what git ignores: an unanchored `results` or `data` would empty a package."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert {pattern for pattern in patterns if not pattern.startswith("/")} == {"__pycache__/", "*.egg-info/"}
    assert not [pattern for pattern in patterns if pattern.strip("/") in PACKAGES]


@pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="needs a git repository"
)
def test_git_ignores_no_file_of_the_packages():
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"],
        input="\n".join(sorted(shipped())),
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout == ""
    assert done.returncode == 1, done.stderr  # 1: none is ignored


@pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="hatchling is not installed")
def test_a_wheel_made_from_the_archive_of_sources_holds_them(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path), "--target"]
    subprocess.run([*build, "sdist"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    shutil.unpack_archive(*tmp_path.glob("htbench-*.tar.gz"), tmp_path)
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    subprocess.run([*build, "wheel"], check=True, cwd=unpacked, stdout=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("htbench-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    own = {name for name in names if not re.match(r"htbench-[^/]*\.dist-info/", name)}
    assert own == {f"htbench/{name.removeprefix('src/htbench/')}" for name in shipped()}
    licences = {name.partition(".dist-info/licenses/")[2] for name in names - own}
    assert {"LICENSE", "THIRD_PARTY.md"} <= licences
