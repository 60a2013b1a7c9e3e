"""The workflows are well-formed, and what they run is there."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.repo.test_repo_versions import PYTHONS

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github").rglob("*.yml")) + [ROOT / ".pre-commit-config.yaml"]
STAGES = set(re.findall(r"^(\w+)\(\) \{", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE))
STAGE = "${{ matrix.stage }}"


def jobs(name: str) -> dict[str, Any]:
    """The jobs of a workflow."""
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))["jobs"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_is_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_a_workflow_runs_stages_that_there_are(name):
    called = set()
    for job in jobs(name).values():
        several = job.get("strategy", {}).get("matrix", {}).get("stage", [])
        for step in job["steps"]:
            words = re.findall(r"^\.ci/run (.*)$", step.get("run", ""), re.MULTILINE)
            called |= {word for line in words for word in line.replace(STAGE, " ".join(several)).split()}
    assert called
    for word in called - STAGES:
        assert os.access(ROOT / word, os.X_OK), f"{name} calls {word}"


def test_the_suite_runs_on_every_python():
    matrix = jobs("ci.yml")["suite"]["strategy"]["matrix"]
    assert matrix["python"] == PYTHONS
    assert matrix["include"] == [{"os": "macos-latest", "python": "3.12"}]


def test_a_release_needs_no_token_and_is_tried_before():
    build, publish = jobs("release.yml").values()
    assert ".ci/run built" in [step.get("run") for step in build["steps"]]
    assert publish["needs"] == "build" and publish["permissions"] == {"id-token": "write"}
    assert publish["steps"][-1].keys() == {"uses"}
