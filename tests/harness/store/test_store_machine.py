"""Claim, die, take over, fail, reset and finish in any order: never two live owners, never two records."""

import os
import shutil
import tempfile
from collections import Counter

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from htbench.harness.errors import LostOwnershipError
from htbench.harness.show.status import Status
from htbench.harness.store import Attempt, Store
from htbench.harness.store.run_folder import Reason
from tests.helpers.records import record

KEYS = ["a" * 12, "b" * 12]


class StoreMachine(RuleBasedStateMachine):
    """Processes are attempts held in memory; a dead or wrongly suspected one may still write (a zombie)."""

    def __init__(self):
        super().__init__()
        self.root = tempfile.mkdtemp()
        self.dead = set()
        self.store = Store(
            self.root, alive=lambda owner, path: owner is not None and owner.nonce not in self.dead
        )
        self.working = {}  # key -> the attempt that may work
        self.zombies = []
        self.finished = {}
        self.saves = 0
        self.in_vain = Counter()  # deaths in a row that count, without a checkpoint

    def teardown(self):
        shutil.rmtree(self.root)

    @rule(key=st.sampled_from(KEYS))
    def claim(self, key):
        claim = self.store.claim(key, "config: {}\n")
        if isinstance(claim, Attempt):
            assert key not in self.working, "two live owners"
            assert key not in self.finished, "a finished run was given away"
            self.working[key] = claim
        elif key in self.finished:
            assert claim.status.has_ended and claim.record.attempts == self.finished[key]
        elif key in self.working:
            assert claim.status is Status.RUNNING and claim.owner == self.working[key].owner
        else:
            assert claim.status is Status.FAILED
            assert (claim.reason is Reason.KILLED) is (self.in_vain[key] >= 2)

    def checkpoint(self, attempt):
        self.saves += 1
        path = attempt.files.path / "checkpoint.pt"
        path.write_text("")
        os.utime(path, (self.saves, self.saves))

    @precondition(lambda self: self.working)
    @rule(data=st.data(), saved=st.booleans(), seen=st.booleans())
    def die(self, data, saved, seen):
        """Killed, perhaps after a checkpoint, perhaps with its launcher, so that nobody has seen it.

        The process may only seem dead and come back as a zombie.
        """
        key = data.draw(st.sampled_from(sorted(self.working)))
        attempt = self.working.pop(key)
        if saved:
            self.checkpoint(attempt)
        self.dead.add(attempt.owner.nonce)
        self.zombies.append(attempt)
        if seen:
            self.store.note_death(key, attempt.number)
        self.in_vain[key] = 0 if saved or not seen else self.in_vain[key] + 1
        assert self.store.state(key).status is (Status.FAILED if self.in_vain[key] >= 2 else Status.WAITING)

    @precondition(lambda self: self.working)
    @rule(data=st.data(), reason=st.sampled_from(["stopped", "error", "oom"]))
    def end(self, data, reason):
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.working.pop(key).end(reason, "because")
        self.in_vain[key] = 0
        assert self.store.state(key).status is (Status.WAITING if reason == "stopped" else Status.FAILED)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def finish(self, data):
        key = data.draw(st.sampled_from(sorted(self.working)))
        attempt = self.working.pop(key)
        attempt.finish(record(key, attempt.number))
        self.finished[key] = attempt.number

    @rule(key=st.sampled_from(KEYS))
    def retry(self, key):
        failed = self.store.state(key).status is Status.FAILED
        assert self.store.reset_failure(key) is failed
        self.in_vain[key] *= not failed
        assert self.store.state(key).status is not Status.FAILED

    @precondition(lambda self: self.zombies)
    @rule(data=st.data())
    def zombie_writes(self, data):
        """A process that was thought dead goes on: it loses unless nobody has taken its run over."""
        attempt = data.draw(st.sampled_from(self.zombies))
        taken_over = self.store.last_attempt(attempt.key) != attempt.number
        try:
            attempt.finish(record(attempt.key, attempt.number))
        except LostOwnershipError:
            assert taken_over
        else:
            assert not taken_over
            self.finished.setdefault(attempt.key, attempt.number)

    @invariant()
    def one_record(self):
        found = self.store.records(KEYS)
        assert {key: record.attempts for key, record in found.items()} == self.finished
        for key in KEYS:
            folder = self.store.run_folder(key)
            assert len(list(folder.glob("record.json*"))) == (key in self.finished)


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=120, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
