"""Which runs leave: the finished ones whose record agrees with their curve. Torch-free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.errors import UsageError
from harness.exchange.outgoing import Outgoing, outgoing
from harness.store import Store
from harness.store.integrity import contradiction
from harness.store.points import Point, known_sweeps, read_points


@dataclass
class Chosen:
    """What an export is about.

    Attributes:
        runs: those that leave, in the order of the sweeps' names and plans, then runs without a sweep.
        unfinished: how many stay, by status: running, waiting, failed or pruned.
        refused: run -> how its record contradicts its curve.
    """

    runs: list[Outgoing] = field(default_factory=list)
    unfinished: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)


def choose(store: Store, sweeps: Sequence[str] = ()) -> Chosen:
    """The runs of some sweeps; of the whole store if none is named.

    Raises:
        UsageError: an unknown sweep, a damaged plan, or an empty store.
    """
    known, keys = known_sweeps(store.root, sweeps), store.keys()
    chosen, points = Chosen(), [point for name in known for point in read_points(store.root, name)]
    wanted = [point for point in points if not sweeps or point.sweep in sweeps]
    if not (wanted or keys):
        raise UsageError(f"There are no runs in '{store.root}'; --root names another store.")
    planned = [point.key for point in wanted if point.key]
    chosen.unfinished["waiting"] += len(wanted) - len(planned)  # slots that have no settings yet
    _sort(store, list(dict.fromkeys(planned if sweeps else planned + keys)), points, chosen)
    return chosen


def _sort(store: Store, keys: Sequence[str], points: Iterable[Point], chosen: Chosen) -> None:
    """Put every run of `keys` where it belongs in `chosen`."""
    wanting: dict[str, list[Point]] = {}
    for point in points:
        wanting.setdefault(point.key, []).append(point)
    ended = set()
    for key, record in store.each_record(keys):
        ended.add(key)
        if record.status == "pruned":  # another study may resume it
            chosen.unfinished["pruned"] += 1
        elif what := contradiction(store.run_folder(key), record):
            chosen.refused[key] = str(what)
        else:
            chosen.runs.append(outgoing(record, wanting.get(key, []), store.files(key).metrics))
    chosen.unfinished.update(str(store.state(key).status) for key in keys if key not in ended)
