"""Versions that are said in several places agree: what is allowed, what is tested, what is written down."""

import re
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]


def requirements(text: str) -> list[Requirement]:
    """The requirements of a file, without its comments."""
    return [Requirement(line) for line in text.splitlines() if line and not line.lstrip().startswith("#")]


def pins(name: str, python: str) -> dict[str, Version]:
    """The one version of each package that a file of constraints gives a Python on Linux."""
    found: dict[str, Version] = {}
    for line in requirements((ROOT / name).read_text(encoding="utf-8")):
        environment = {
            "python_version": python,
            "python_full_version": f"{python}.0",
            "sys_platform": "linux",
        }
        if line.marker is None or line.marker.evaluate(environment):
            (pin,) = line.specifier
            assert pin.operator == "==" and canonicalize_name(line.name) not in found, line
            found[canonicalize_name(line.name)] = Version(pin.version)
    return found


def wanted(extras: list[str], python: str) -> list[Requirement]:
    """What pyproject.toml asks for on that Python."""
    words = PROJECT["dependencies"] + [
        word for extra in extras for word in PROJECT["optional-dependencies"][extra]
    ]
    needed = [Requirement(word) for word in words]
    return [
        need for need in needed if need.marker is None or need.marker.evaluate({"python_version": python})
    ]


@pytest.mark.parametrize("python", PYTHONS)
def test_the_tested_versions_are_allowed(python):
    tested = pins("constraints.txt", python)
    for need in wanted(["dev", "dashboard", "postgres", "docs"], python):
        version = tested.get(canonicalize_name(need.name))
        assert version is not None, f"constraints.txt has no {need.name} for Python {python}"
        assert version in need.specifier, f"{need}: constraints.txt has {version}"


def test_the_lowest_versions_are_those_that_are_allowed():
    lowest = pins("constraints-lowest.txt", "3.11")
    for need in wanted([], "3.11"):
        (bound,) = [part.version for part in need.specifier if part.operator == ">="]
        assert lowest[canonicalize_name(need.name)] == Version(bound), need


def test_one_version_of_our_own():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert PROJECT["version"] == citation["version"]
    assert PROJECT["license"] == citation["license"]
    (newest, *_) = re.findall(r"^## \[(\d.*)\] - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert PROJECT["version"] == newest


def test_classifiers_name_the_pythons():
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert named == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
