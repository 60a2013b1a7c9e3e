"""A section of docs/ladder.md: how much of Muon's gain is its map, and how much that two rates train a model.

The endpoints are those that the page fixed before the first run. Each is the difference of two rows, with the
judge's interval for a pair; the intervals of a workload hold together in 95 % (Bonferroni).
"""

from dataclasses import dataclass
from operator import itemgetter

import pandas as pd

from docs.config_page import table
from htbench.harness.choice.winner import grouped
from htbench.harness.store import Store
from htbench.results.compare.contender import make_judge_row
from htbench.results.compare.judge import LEVEL, Row, judge
from htbench.results.compare.select import OPTIMIZER, WORKLOAD, choose
from htbench.results.compare.summary import values_by_seed
from htbench.results.frames.metrics import reported
from htbench.results.frames.rows import Rows
from htbench.sweeps.experiments import ladder

# By question: the row that has it, and the row that lacks it.
PRIMARY = {
    "the split: AdamW with a rate of its own for the matrices": ("adamw-split", "adamw"),
    "the map: Muon on the hidden matrices, instead of AdamW": ("muon-hidden", "adamw-split"),
    "p: HTMuon on the hidden matrices, instead of Muon": ("htmuon-hidden", "muon-hidden"),
    "the routing: Muon on the hidden matrices, instead of all": ("muon-hidden", "muon"),
}
GAIN = {"all of it: Muon on the hidden matrices, instead of AdamW": ("muon-hidden", "adamw")}
SECONDARY = {
    "the routing of HTMuon: the hidden matrices, instead of all": ("htmuon-hidden", "htmuon"),
    "beta2 of the rest: .999 instead of .95": ("muon-hidden-beta2", "muon-hidden"),
    "no map: Muon's momentum alone on the hidden matrices": ("sgdm-split", "muon-hidden"),
}


@dataclass(frozen=True)
class Difference:
    """The loss of one row less that of another, in nats per token, with its interval."""

    value: float
    low: float
    high: float
    seeds: int  # that both have

    def words(self) -> str:
        """With signs."""
        return f"{self.value:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"

    def verdict(self, equal: float) -> str:
        """What it says, where less than `equal` does not matter."""
        if -equal < self.low and self.high < equal:
            return "equal"
        return "**better**" if self.high < 0 else "**worse**" if self.low > 0 else "can't tell"


def workloads(frame: pd.DataFrame) -> list[Rows]:
    """The rows of each workload that the split was trained on; the ladder's, where it has none of its own."""
    of_split = frame["sweep"].isin(ladder.SPLIT)
    places = []
    for place, own in grouped(frame[of_split].to_dict("records"), itemgetter(*WORKLOAD)).items():
        known = {row["optimizer"] for row in own}
        others = frame[~of_split & ~frame["sweep"].isin([*ladder.ASIDES, ladder.SEARCHED])].to_dict("records")
        same = [row for row in others if itemgetter(*WORKLOAD)(row) == place]
        places.append([*own, *(row for row in same if row["optimizer"] not in known)])
    return places


def split(frame: pd.DataFrame, store: Store, equal: float) -> str:
    """The section; empty without runs.

    Args:
        frame: of the ladder.
        store: where test items are.
        equal: nats that do not matter.
    """
    parts = [text for part in workloads(frame) if (text := _endpoints(part, store, equal))]
    title = "## The split: what is Muon's gain made of?"
    told = (
        "Test loss in nats per token; negative: better. Intervals count seeds, luck of the search and "
        "sample of documents; those of the four endpoints hold together in 95 %, the others each alone."
    )
    return "\n\n".join([title, told, *parts]) if parts else ""


def endpoints(part: Rows, store: Store) -> dict[str, Difference]:
    """What each question comes to at a workload, where both of its rows have run."""
    known = _rows(part, store)
    pairs = [(question, pair, LEVEL / len(PRIMARY)) for question, pair in PRIMARY.items()]
    pairs += [(question, pair, LEVEL) for question, pair in (GAIN | SECONDARY).items()]
    return {
        question: difference(known[has], known[lacks], level)
        for question, (has, lacks), level in pairs
        if has in known and lacks in known
    }


def _endpoints(part: Rows, store: Store, equal: float) -> str:
    lines = [
        (question, f"{gap.seeds}", gap.words(), gap.verdict(equal))
        for question, gap in endpoints(part, store).items()
    ]
    head = ("what is changed", "fresh seeds", "test loss [95 %]", "verdict")
    where = ", ".join(f"{part[0][name]}" for name in WORKLOAD)
    return "\n\n".join([f"### {where}", table(head, lines)]) if lines else ""


def _rows(part: Rows, store: Store) -> dict[str, Row]:
    """The rows of a workload whose winner has run on fresh seeds, by name."""
    metric, known = reported(part)[0], {}
    for choice in choose(part, OPTIMIZER):
        values = values_by_seed(choice.replicas, metric)
        name = str(choice.fixed["optimizer"])
        own = make_judge_row(name, values, metric, choice.replicas, choice, store)
        if own is not None and choice.is_settled:
            known[name] = own
    return known


def difference(first: Row, second: Row, level: float) -> Difference:
    """The first row's loss less the second's; the interval errs at this level."""
    judged = judge([first, second], level=level)
    other = judged.verdicts[1 - judged.best]
    seeds = len(first.values.keys() & second.values.keys())
    if judged.best == 1:  # the first is the worse one
        return Difference(other.gap, other.low, other.high, seeds)
    return Difference(-other.gap, -other.high, -other.low, seeds)
