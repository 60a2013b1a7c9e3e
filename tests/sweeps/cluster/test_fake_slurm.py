"""The stand-in for SLURM does what the real one does (`tests/slurm/test_slurm_contract.py`)."""

import pytest

from tests.helpers.fake_slurm import FakeSlurm
from tests.helpers.slurm_contract import CHECKS, Site


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_stand_in(check, tmp_path, monkeypatch):
    cluster = FakeSlurm(tmp_path / "slurm", monkeypatch)
    check(Site(lambda id: cluster.change(id, state="RUNNING"), tmp_path))
