"""The store of the published numbers, written once: its records take seconds."""

import shutil

import pytest

from htbench.harness.store import Store
from tests.helpers import published_store


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    """Every run of `sweeps/paper` with the published result; only to be read."""
    return published_store.fill(tmp_path_factory.mktemp("published") / "store")


@pytest.fixture
def changeable(published, tmp_path):
    """A copy of it."""
    return Store(shutil.copytree(published.root, tmp_path / "store"))
