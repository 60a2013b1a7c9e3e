"""Which values rest on a choice that may still change, or on runs of unlike environments.

The marks are those of tables, found by the runs behind each value, whatever figure shows it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from htbench.results.compare.contender import estimate_gains
from htbench.results.compare.select import has_stages
from htbench.results.compare.workload import Workload
from htbench.results.frames.metrics import word
from htbench.results.frames.provenance import CAN_CHANGE, OF_A_ROW, is_told
from htbench.results.frames.rows import Rows

KINDS = ("edge", "not_final", "stale", "fresh_left_out", "mixture_cell")


@dataclass(frozen=True)
class Caveats:
    """What is known of runs, by their keys.

    Attributes:
        choices: kinds of notes on the choice that a run belongs to.
        environments: what can change the numbers of a run.
    """

    choices: Mapping[str, tuple[str, ...]]
    environments: Mapping[str, tuple[str, ...]]

    def of(self, keys: Sequence[str]) -> list[str]:
        """The kinds of notes on a value of these runs."""
        mixed = len({self.environments[key] for key in keys if key in self.environments}) > 1
        choice_kinds = {kind for key in keys for kind in self.choices.get(key, ())}
        return [kind for kind in KINDS if kind in choice_kinds or (kind == "mixture_cell" and mixed)]


def find_caveats(frame: Rows, workloads: Iterable[Workload]) -> Caveats:
    """The marks of all runs of a frame, whose workloads these are."""
    choices: dict[str, tuple[str, ...]] = {}
    for workload in workloads:
        for choice in workload.choices:
            if choice.winner is None or not has_stages(choice.winner.runs[0]):
                continue
            kinds = {
                "edge": estimate_gains(choice, workload.metric),
                "not_final": choice.unfinished,
                "stale": choice.stale,
                "fresh_left_out": choice.left_out,
            }
            noted = tuple(kind for kind, is_true in kinds.items() if is_true)
            choices |= {str(run["key"]): noted for run in [*choice.winner.runs, *choice.replicas] if noted}
    names = (*CAN_CHANGE, OF_A_ROW)
    told = (run for run in frame if is_told(run))
    return Caveats(choices, {str(run["key"]): tuple(word(run.get(name)) for name in names) for run in told})
