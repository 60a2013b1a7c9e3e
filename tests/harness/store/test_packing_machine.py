"""Pack, unpack, amend and import in any order, killed at any instant: every run is there, as it was."""

import contextlib
import dataclasses
import shutil
import tempfile
from pathlib import Path
from unittest import mock

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.store import Store, check, packing
from harness.store.importing import merge
from harness.store.layout import run_keys
from harness.system import atomic
from tests.helpers.crash_points import PACK_CRASH_POINTS
from tests.helpers.stored_runs import put

PACK = ("", *PACK_CRASH_POINTS)
IMPORT = ("", "claim.before", "claimed", "record.before", "record.after")
FULL = 3  # runs of an archive


class KilledError(BaseException):
    """Stands for SIGKILL; what a true one leaves besides is in `test_packing.py`."""


@contextlib.contextmanager
def killed_at(instant, calls):
    """Die when this crash point is reached for the so many-th time."""
    left = [calls]

    def crash_point(name):
        left[0] -= name == instant
        if not left[0]:
            raise KilledError

    with mock.patch.object(atomic, "crash_point", crash_point), contextlib.suppress(KilledError):
        yield


def look(store):
    """What readers find of each run."""
    found = {}
    for key in store.keys():
        files = store.files(key)
        names = ("config", "metrics", "spectra", "log")
        found[key] = (store.record(key), *(getattr(files, name).read_bytes() for name in names))
    return found


class PackingMachine(RuleBasedStateMachine):
    """Two stores of the same few runs; `known` is what readers must find in each."""

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp())
        self.full = mock.patch.object(packing, "RUNS", FULL)
        self.full.start()
        self.stores = [Store(self.folder / name, alive=lambda *_: False) for name in ("ours", "theirs")]
        self.known = [{}, {}]
        self.amendments = 0

    def teardown(self):
        if hasattr(self, "folder"):
            self.full.stop()
            shutil.rmtree(self.folder)

    @rule(who=st.sampled_from([0, 1]), seed=st.integers(0, 7))
    def finish_a_run(self, who, seed):
        store = self.stores[who]
        key = put(store.root, seed=seed) if not self._has(store, seed) else None
        if key is not None:
            self.known[who][key] = look(store)[key]

    def _has(self, store, seed):
        return any(
            record.config["seed"] == seed for record, *_ in self.known[self.stores.index(store)].values()
        )

    @precondition(lambda self: any(self.known))
    @rule(data=st.data(), instant=st.sampled_from(PACK), calls=st.integers(1, 3))
    def pack(self, data, instant, calls):
        store, keys = self._some(data)
        with killed_at(instant, calls), packing.packing(store):
            todo = packing.plan(store, packing.choose(store, keys).keys)
            packing.pack(store, todo, lambda name: None, lambda: None)

    @precondition(lambda self: any(self.known))
    @rule(data=st.data(), instant=st.sampled_from(PACK), calls=st.integers(1, 3))
    def unpack(self, data, instant, calls):
        store, keys = self._some(data)
        with killed_at(instant, calls), packing.packing(store):
            todo = packing.plan(store, [], keys & store.packed.now().runs.keys())
            packing.pack(store, todo, str, lambda: None)

    def _some(self, data):
        """A store that has runs, and some of their keys."""
        who = data.draw(st.sampled_from([n for n in (0, 1) if self.known[n]]))
        return self.stores[who], data.draw(st.sets(st.sampled_from(sorted(self.known[who]))))

    @precondition(lambda self: any(self.known))
    @rule(data=st.data())
    def amend(self, data):
        """Each time with questions that no other amendment has: no two stores contradict each other."""
        who = data.draw(st.sampled_from([n for n in (0, 1) if self.known[n]]))
        key = data.draw(st.sampled_from(sorted(self.known[who])))
        self.amendments += 1
        more = {f"task{self.amendments}": {"acc": 0.5, "questions": 10}}
        record = self.stores[who].amend(
            key, lambda now: dataclasses.replace(now, downstream=now.downstream | more)
        )
        self.known[who][key] = (record, *self.known[who][key][1:])

    @rule(instant=st.sampled_from(IMPORT), calls=st.integers(1, 3))
    def take_in(self, instant, calls):
        """A killed import is simply run again."""
        ours, theirs = self.stores
        if theirs.root.exists():
            ours.root.mkdir(exist_ok=True)
            with killed_at(instant, calls):
                merge(ours, theirs.root)
            assert not merge(ours, theirs.root).conflicts
            for key, (record, *rest) in self.known[1].items():
                before, *mine = self.known[0].get(key, (record, *rest))
                whole = dataclasses.replace(before, downstream=record.downstream | before.downstream)
                self.known[0][key] = (whole, *mine)

    @precondition(lambda self: any(self.known))
    @rule(data=st.data())
    def finish_the_work(self, data):
        """What killed commands left is cleared away: all is in few archives, or in folders."""
        store, _ = self._some(data)
        with packing.packing(store):
            todo = packing.plan(store, packing.choose(store).keys)
            packing.pack(store, todo, lambda name: None, lambda: None)
        archives = store.packed.now().archives
        runs = len(store.keys())
        assert run_keys(store.root) == [] and len(archives) <= -(-runs // FULL) + 1
        assert not list(atomic.temporaries(store.root / "packed"))
        if data.draw(st.booleans()):
            with packing.packing(store):
                packing.pack(store, packing.plan(store, [], set(store.keys())), str, lambda: None)
            assert len(run_keys(store.root)) == runs and not store.packed.now().archives

    @invariant()
    def every_run_is_there_as_it_was(self):
        for store, known in zip(self.stores, self.known, strict=True):
            assert look(store) == known
            assert store.records(known) == {key: record for key, (record, *_) in known.items()}
            found = check.Survey(store.root)
            assert not (found.contested or found.faults or found.damaged.keys() - {"attempt"})


TestPackingMachine = PackingMachine.TestCase
TestPackingMachine.settings = settings(
    max_examples=40, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
