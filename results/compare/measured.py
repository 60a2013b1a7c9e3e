"""What our runs achieved beside a published number: the paper's tables, figures and ledger read it here."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from htbench.harness.choice.winner import grouped
from htbench.harness.paper import reported
from htbench.harness.paper.reported import Reported
from htbench.harness.show.note import Note, text
from htbench.harness.show.status import HOPEFUL_FIRST, Status
from htbench.results.compare import paper_errata
from htbench.results.compare.paper_runs import PaperRuns
from htbench.results.compare.quantities import HOURS_TO, Quantity, find_quantity, is_decidable, is_time
from htbench.results.compare.select import Choice, Row
from htbench.results.compare.stats import Summary, summarize
from htbench.results.compare.to_target import Seeds, find_steps_to, find_targets, read_evaluations, read_seeds
from htbench.results.frames.metrics import Metric, word

UNPLANNED = "unplanned"
UNDECIDABLE = Note("undecidable")  # the reason where a scale has no twin


@dataclass(frozen=True)
class Measured:
    """Our figure beside a published number.

    Attributes:
        metric: its name, unit (in the label), digits and direction; at full scale as printed. None: the
            scale has nothing that stands for the published number.
        sample: by (seed, data_seed), in that unit. Empty without a value.
        state: `completed` with a value; UNPLANNED; else the state of the runs that should have it.
        reason: why there is no value; None if `state` says it all.
        runs: the rows of the frame behind the value, or those that should have it.
        choice: what was selected; None if nothing is planned.
        notes: footnotes.
    """

    metric: Metric | None
    sample: Mapping[Seeds, float]
    state: str
    reason: Note | None = None
    runs: Sequence[Row] = ()
    choice: Choice | None = None
    notes: tuple[Note, ...] = ()

    @property
    def summary(self) -> Summary | None:
        """Mean and spread over the seeds."""
        return summarize(list(self.sample.values())) if self.sample else None

    @property
    def keys(self) -> tuple[str, ...]:
        """The runs by their keys, but for empty slots."""
        return tuple(str(run["key"]) for run in self.runs if run["key"] != run["slot"])


@functools.cache  # lives as long as one command; tables, figures and the ledger ask for the same
def measure_line(our_runs: PaperRuns, line: Reported, lr: float | None = None) -> Measured:
    """Our figure beside a published number, at the scale of both.

    Selected over: the learning rate. Fixed: the place (workload, optimizer, p, interval ...).

    The value is that of the fresh seeds (replicate stage), and at full scale that of the chosen search run,
    as in the paper. Times are those of the same runs. A grid of learning rates fixes the rate, too, and has
    the validation metric of the search runs; at full scale the reported split is also called val.

    Args:
        our_runs: the runs of a scale.
        line: the published number.
        lr: fixed, too, if it is given.
    """
    in_grid, is_full = line.table.startswith("lr_grid") and line.lr is not None, line.scale == "paper"
    notes = paper_errata.note_rate(line) if is_full else ()
    choices = our_runs.choices(line.place, line.lr if in_grid or notes else lr)
    quantity = find_quantity(line)
    reason = None if is_decidable(line) else UNDECIDABLE
    if quantity is None or reason is not None or not choices:
        return Measured(quantity.metric if quantity else None, {}, UNPLANNED, reason, notes=notes)
    *earlier, choice = choices  # one per version of code and data; the one planned last counts
    if earlier:
        names = [*map(_name_version, earlier)]
        notes = (*notes, Note("other_versions", used=_name_version(choice), others=names))
    if choice.winner is None:
        return _explain_missing(quantity.metric, choice.runs, choice, notes)
    runs = choice.winner.runs if in_grid or is_full else choice.replicas
    if not runs:
        reason = Note("measured_no_replicas")
        return Measured(quantity.metric, {}, Status.WAITING, reason, choice=choice, notes=notes)
    return _measure_runs(our_runs, line, quantity, runs, choice, notes, "val" if in_grid else "test")


def _name_version(choice: Choice) -> str:
    """What tells runs of other code, data or workload settings apart."""
    optimizer, setting = choice.fixed["optimizer"], choice.fixed["setting"]
    return f"{optimizer} ({setting})" if setting else str(optimizer)


def _measure_runs(
    our_runs: PaperRuns,
    line: Reported,
    quantity: Quantity,
    runs: Sequence[Row],
    choice: Choice,
    notes: tuple[Note, ...],
    split: str,
) -> Measured:
    """The value of some runs. Those that have none are counted in a footnote."""
    reach = _share_to_target(our_runs, line) if line.metric.startswith(HOURS_TO) else None
    ended = [run for run in runs if run["state"] == Status.COMPLETED]
    machines = Counter(word(run.get("machine")) for run in ended).most_common()
    if is_time(line) and len(machines) > 1:  # times are never pooled: those on the machine of most runs count
        (usual, _), *rare = machines
        runs = [run for run in runs if run["state"] != Status.COMPLETED or word(run.get("machine")) == usual]
        names = [f"{n} on {name}" for name, n in sorted(rare)]
        notes = (*notes, Note("one_machine", machine=usual, others=names))
    values: dict[Seeds, float] = {}
    never = 0  # of how many runs do not reach the target
    for run in runs:
        value = quantity.value(run, split) if run["state"] == Status.COMPLETED else None
        share = 1.0 if reach is None else reach(run)
        if value is not None and share is not None:
            never += share > 1
            values |= {read_seeds(run): value * share} if share <= 1 else {}
    if never:  # a mean of those that reach it would be too good
        reason = Note("censored", count=never, total=never + len(values), reached=sorted(values.values()))
        used = [run for run in runs if run["state"] == Status.COMPLETED]
        return Measured(quantity.metric, {}, Status.COMPLETED, reason, used, choice, notes)
    by_value = grouped(runs, lambda run: read_seeds(run) in values)
    used, without = by_value.get(True, []), by_value.get(False, [])
    if not values:
        return _explain_missing(quantity.metric, without, choice, notes)
    if without:
        counts = Counter(run["state"] for run in without)
        kinds = {state: f"tally_{state}" for state in HOPEFUL_FIRST} | {Status.COMPLETED: "tally_no_figure"}
        rest = [Note(kinds[state], count=counts[state]) for state in HOPEFUL_FIRST if counts[state]]
        notes = (*notes, Note("runs_count", count=len(values), total=len(runs), rest=rest))
    return Measured(quantity.metric, values, Status.COMPLETED, None, used, choice, notes)


def _explain_missing(
    metric: Metric, runs: Sequence[Row], choice: Choice, notes: tuple[Note, ...]
) -> Measured:
    """The state of the run that may still get a value most easily."""
    state = next(state for state in HOPEFUL_FIRST if any(run["state"] == state for run in runs))
    hopeful = [run for run in runs if run["state"] == state]
    reasons = sorted({str(run["reason"]) for run in hopeful} - {""})
    reason = text("; ".join(reasons)) if reasons else None
    return Measured(metric, {}, state, reason, hopeful, choice, notes)


def _share_to_target(our_runs: PaperRuns, line: Reported) -> Callable[[Row], float | None]:
    """The share of a run's steps until it has the perplexity that Muon's run ends with; infinite if never."""
    muon = next(
        other
        for other in reported.of_table("wall_clock", line.scale)
        if (other.model, other.optimizer, other.metric) == (line.model, "muon", "perplexity")
    )
    perplexity = find_quantity(muon)
    assert perplexity is not None

    def end(run: Row) -> float | None:
        return perplexity.value(run, "val")

    goals = find_targets(measure_line(our_runs, muon).runs, end, higher_is_better=False)

    def share(run: Row) -> float | None:
        if our_runs.store is None or read_seeds(run) not in goals:
            return None
        path = our_runs.store.files(str(run["key"])).metrics
        curve = read_evaluations(path, perplexity.column.format(split="val"), end)
        step = find_steps_to(curve, goals[read_seeds(run)], higher_is_better=False)
        return math.inf if step is None and curve else None if step is None else step / float(run["steps"])

    return share
