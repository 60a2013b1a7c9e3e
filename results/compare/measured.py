"""What our runs achieved beside a published number: the paper's tables, figures and ledger read it here."""

from __future__ import annotations

import functools
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.paper import experiments, reported
from harness.paper.reported import Reported
from results.compare import paper_to_target as to_target
from results.compare.ours import Ours
from results.compare.paper_to_target import Seeds
from results.compare.quantities import HOURS_TO, Quantity, quantity
from results.compare.select import Choice, Row
from results.compare.stats import Sample, Summary, summarize
from results.frames.metrics import Metric, word

_MOST_HOPEFUL_FIRST = ("running", "waiting", "failed", "damaged", "diverged", "pruned", "completed")
_COUNTED = {"waiting": "not run yet", "completed": "without the figure"}
_NO_REPLICAS = "the chosen setting has no run on a fresh seed yet"
_OTHER_RATES = "the learning rates of this scale are others"
# Source: the paper's own table of learning rates on CIFAR-100.
_SLIP = ("p_grid_cifar", "cifar100", "resnet50", "htmuon p=0")


@dataclass(frozen=True)
class Measured:
    """Our figure beside a published number.

    Attributes:
        metric: its name, unit (in the label), digits and direction; at full scale as printed. None: the
            scale has nothing that stands for the published number.
        sample: by (seed, data_seed), in that unit. Empty without a value.
        state: `completed` with a value; `unplanned`; else the state of the runs that should have it.
        reason: why there is no value, in words; empty if `state` says it all.
        runs: the rows of the frame behind the value, or those that should have it.
        choice: what was selected; None if nothing is planned.
        notes: footnotes.
        test_variance: what the finite test set adds to the variance of the mean (see `stats.Sample`).
    """

    metric: Metric | None
    sample: Mapping[Seeds, float]
    state: str
    reason: str = ""
    runs: Sequence[Row] = ()
    choice: Choice | None = None
    notes: tuple[str, ...] = ()
    test_variance: float | None = None

    @property
    def summary(self) -> Summary | None:
        """Mean and spread over the seeds."""
        return summarize(list(self.sample.values())) if self.sample else None

    @property
    def keys(self) -> tuple[str, ...]:
        """The runs by their keys, but for empty slots."""
        return tuple(str(run["key"]) for run in self.runs if "/" not in str(run["key"]))

    @property
    def as_sample(self) -> Sample | None:
        """For tests of significance."""
        return Sample(self.sample, self.test_variance) if self.sample else None


def measured(ours: Ours, line: Reported) -> Measured:
    """Our figure beside a published number.

    Selected over: the learning rate. Fixed: the place (workload, optimizer, p, interval ...). A table over
    learning rates fixes the rate, too; it exists at full scale only, see `at_rate`.

    The value is that of the fresh seeds (replicate stage) at nano and quick scale, and that of the chosen
    search run at full scale, as in the paper. Times are those of the same runs.
    """
    if line.table.startswith("lr_grid") and ours.scale != "paper":
        return Measured(None, {}, "unplanned", _OTHER_RATES)
    place, rate = experiments.place(line, ours.scale), fixed_rate(line, ours.scale)
    found = of_choices(ours, line, ours.choices(place, rate))
    return replace(found, notes=(*slip(line), *found.notes)) if rate is not None else found


def at_rate(ours: Ours, line: Reported, lr: float) -> Measured:
    """The validation metric of the search runs at one learning rate, at the place of a published number.

    At full scale the reported split is also called val, so this is the reported metric there.
    """
    choices = ours.choices(experiments.place(line, ours.scale), lr)
    return of_choices(ours, line, choices, of_search=True)


def fixed_rate(line: Reported, scale: str) -> float | None:
    """The learning rate that a published number fixes at a scale; None: it is the best of the grid."""
    return line.lr if scale == "paper" and (is_slip(line) or line.table.startswith("lr_grid")) else None


def is_slip(line: Reported) -> bool:
    """Whether a number is not that of the best learning rate, as its table says."""
    return (line.table, line.dataset, line.model, line.row) == _SLIP


def slip(line: Reported) -> tuple[str, ...]:
    """The footnote to such a number; nothing for any other."""
    if not is_slip(line):
        return ()
    place = experiments.place(line)
    grid = [one for one in reported.of_table("lr_grid_cifar100") if experiments.place(one) == place]
    best = max(grid, key=lambda one: one.value)
    return (f"a slip of the paper: Muon at lr {line.lr:g}; its best is {best.printed} at lr {best.lr:g}",)


def of_choices(ours: Ours, line: Reported, choices: Sequence[Choice], *, of_search: bool = False) -> Measured:
    """The figure of what was chosen, as `measured` returns it.

    Args:
        ours: the runs of a scale.
        line: the published number; it says which metric.
        choices: one per version of code and data. The one planned last counts, the others are named.
        of_search: take the validation metric of the search runs also where there are fresh seeds.
    """
    what = quantity(line, ours.scale)
    if what is None or not choices:
        return Measured(what.metric if what else None, {}, "unplanned")
    choice, notes = choices[-1], _other_versions(choices)
    if choice.winner is None:
        runs = [run for one in choice.candidates for run in one.runs]
        return _without_value(what.metric, runs, choice, notes)
    if of_search or ours.scale == "paper":
        return _figure(ours, line, what, choice.winner.runs, choice, notes, "val" if of_search else "test")
    if not choice.replicas:
        return Measured(what.metric, {}, "waiting", _NO_REPLICAS, choice=choice, notes=notes)
    return _figure(ours, line, what, choice.replicas, choice, notes, "test")


def _figure(
    ours: Ours,
    line: Reported,
    what: Quantity,
    runs: Sequence[Row],
    choice: Choice,
    notes: tuple[str, ...],
    split: str,
) -> Measured:
    """The value of some runs. Those that have none are counted in a footnote."""
    reach = _reach(ours, line) if line.metric.startswith(HOURS_TO) else None
    if is_time(line):
        runs, left_out = _of_one_machine(runs)
        notes = (*notes, *left_out)
    values: dict[Seeds, float] = {}
    for run in runs:
        value = what.value(run, split) if run["state"] == "completed" else None
        share = 1.0 if reach is None else reach(run)
        if value is not None and share is not None:
            values[run["seed"], run["data_seed"]] = value * share
    without = [run for run in runs if (run["seed"], run["data_seed"]) not in values]
    if not values:
        return _without_value(what.metric, without, choice, notes)
    if without:
        notes = (*notes, f"{len(values)} of {len(runs)} runs count; the rest: {_tally(without)}")
    used = [run for run in runs if (run["seed"], run["data_seed"]) in values]
    variance = _test_variance(what, values, used, split)
    return Measured(what.metric, values, "completed", "", used, choice, notes, variance)


def is_time(line: Reported) -> bool:
    """Whether a published number is a time."""
    return line.metric.startswith(("seconds_per_step", "hours"))


def _of_one_machine(runs: Sequence[Row]) -> tuple[Sequence[Row], tuple[str, ...]]:
    """The runs on the machine that most of them had; a footnote names the others. Times are never pooled."""
    machines = Counter(word(run.get("machine")) for run in runs if run["state"] == "completed")
    if len(machines) < 2:
        return runs, ()
    (usual, _), *others = machines.most_common()
    kept = [run for run in runs if run["state"] != "completed" or word(run.get("machine")) == usual]
    names = ", ".join(f"{n} on {name}" for name, n in sorted(others))
    return kept, (f"times of {usual} only; other runs are left out: {names}",)


def _without_value(metric: Metric, runs: Sequence[Row], choice: Choice, notes: tuple[str, ...]) -> Measured:
    """The state of the run that may still get a value most easily."""
    state = min((str(run["state"]) for run in runs), key=_MOST_HOPEFUL_FIRST.index)
    own = [run for run in runs if run["state"] == state]
    reasons = sorted({str(run["reason"]) for run in own} - {""})
    return Measured(metric, {}, state, "; ".join(reasons), own, choice, notes)


def _tally(runs: Sequence[Row]) -> str:
    """ "1 not run yet, 2 diverged"."""
    counts = Counter(str(run["state"]) for run in runs)
    return ", ".join(f"{counts[one]} {_COUNTED.get(one, one)}" for one in _MOST_HOPEFUL_FIRST if counts[one])


def _other_versions(choices: Sequence[Choice]) -> tuple[str, ...]:
    """The footnote that names what a cell leaves out: runs of other code, data or workload settings."""
    used, *others = (_version(choice) for choice in reversed(choices))
    return (f"{used}; also planned, but not mixed in: {'; '.join(reversed(others))}",) if others else ()


def _version(choice: Choice) -> str:
    named = f"{choice.fixed['optimizer']} ({choice.fixed['setting']})"
    return named.removesuffix(" ()")


def _test_variance(
    what: Quantity, values: Mapping[Seeds, float], runs: Sequence[Row], split: str
) -> float | None:
    """The sampling error of a share of right answers, as `results.compare.summary` has it."""
    sizes = [run.get(what.questions.format(split=split)) for run in runs] if what.questions else [None]
    known = [size for size in sizes if size is not None and size == size]
    if len(known) < len(sizes):
        return None
    share: float = statistics.fmean(values.values()) / what.metric.scale
    return what.metric.scale**2 * share * (1 - share) / float(min(known))


def _reach(ours: Ours, line: Reported) -> Callable[[Row], float | None]:
    """The share of a run's steps until it has the perplexity that Muon's run ends with."""
    target = to_target.muon(line)
    perplexity = quantity(target, ours.scale)
    runs = measured(ours, target).runs
    assert perplexity is not None
    ends = {(run["seed"], run["data_seed"]): perplexity.value(run, "val") for run in runs}
    targets = {seeds: end for seeds, end in ends.items() if end is not None}
    if ours.store is None:
        return lambda run: None
    return functools.partial(to_target.share_of_steps, ours.store, targets=targets, perplexity=perplexity)
