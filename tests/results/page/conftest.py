"""A store whose every string is an attack on the page."""

import json

import pytest

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&--><!--\u2028"


@pytest.fixture
def hostile():
    """The string."""
    return HOSTILE


@pytest.fixture
def hostile_store(bench, make):
    """Every string that a user or a machine decides holds markup."""
    key = bench.add(
        "digits",
        "adamw",
        0.003,
        metrics=make.image(0.9, 0.4),
        reason=HOSTILE,
        cpu=HOSTILE,
        sweep="hostile",
        block=HOSTILE,
        environment={"host": HOSTILE, "gpu": "", "code": HOSTILE},
        base={"replica": "again"},
    )
    bench.add("digits", HOSTILE, 0.1, sweep="hostile", metrics=make.image(0.8, 0.5))
    bench.add("digits", "muon", 0.1, sweep="hostile", state="failed", reason=HOSTILE)
    folder = bench.store.run_folder(key)
    (folder / "log.txt").write_bytes(HOSTILE.encode("utf-8", "surrogatepass") + b"\xff\x00\n")
    attempt = {
        "owner": {"host": HOSTILE, "job": HOSTILE},
        "ended": 1.0,
        "outcome": {"reason": "error", "message": HOSTILE},
    }
    (folder / "attempts" / "1.json").write_text(json.dumps(attempt))
    return bench.write()
