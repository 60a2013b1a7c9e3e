"""The orderings that the paper states: "htmuon below muon on LLaMA-60M", one `Claim` each.

They are made from the published numbers by a rule: each heavy-tailed optimizer against each baseline of its
table, interval against interval, p = 0.125 against every other p. The better number is the claim, also where
it is the baseline's. Figures without published numbers add what the text reads off them.
"""

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, permutations

from htbench.harness.paper import experiments, reported
from htbench.harness.paper.reported import Reported, Setting
from htbench.results.compare.quantities import QUESTIONS, is_decidable, quantity

# Of each heavy-tailed optimizer: the one that it corrects.
_BASE = {
    "htmuon": "muon",
    "htmuon_ns": "muon",
    "htmuon_ht": "muon",
    "htmuon_normuon": "normuon",
    "htmuon_ht_normuon": "normuon",
}
# Pairs of heavy-tailed optimizers that a table compares; the others differ in two respects.
_KIN = {
    frozenset({"htmuon", "htmuon_ns"}),
    frozenset({"htmuon", "htmuon_ht"}),
    frozenset({"htmuon", "htmuon_normuon"}),
    frozenset({"htmuon_normuon", "htmuon_ht_normuon"}),
}
_METHOD = {*_BASE, *_BASE.values()}  # the method and what it corrects
HOURS = "hours_to"
_ABLATIONS = ("interval", "p_grid", "htmuon_ht")  # in these tables only the own base is a rival
_DEFAULT_P = 0.125
# The text calls p = 0.125 the best on CIFAR-10. The numbers of ResNet-50 do not say so: see `slips.py`.
_BEST_BY_TEXT = {("p_grid_cifar", "cifar10")}

ALPHA, TRAIN_LOSS, SPECTRAL_NORM, FROBENIUS = "alpha", "train_loss", "sigma_max", "fro"
OF_FIGURES = (ALPHA, TRAIN_LOSS, SPECTRAL_NORM, FROBENIUS)


@dataclass(frozen=True)
class Claim:
    """One number said to be better than another: lower, or higher for accuracies.

    Attributes:
        better, worse: the two numbers. `printed` is empty where only a figure shows them.
    """

    better: Reported
    worse: Reported

    @property
    def source(self) -> str:
        """The table or figure that states it."""
        return self.better.table

    @property
    def higher_is_better(self) -> bool:
        """The direction of the metric."""
        return self.better.metric == "accuracy" or self.better.metric in QUESTIONS

    def text(self) -> str:
        """ "htmuon below muon"."""
        relation = "above" if self.higher_is_better else "below"
        return f"{_label(self.better, self.worse)} {relation} {_label(self.worse, self.better)}"

    @property
    def ratio(self) -> float | None:
        """The published gap as a logarithm, |ln(one / other)|; None where only a figure shows it."""
        if not (self.better.printed and self.worse.printed):
            return None
        return abs(math.log(self.better.value / self.worse.value)) or None

    @property
    def family(self) -> str:
        """The claims that are tested together, fixed by the paper: its method, its baselines, its times."""
        if _quantity(self.better) == HOURS or self.better.metric in ("hours", "seconds_per_step"):
            return "times"
        rules = {self.better.setting.optimizer, self.worse.setting.optimizer}
        return "core" if rules <= _METHOD else "baselines"

    def gap(self) -> float | None:
        """By how much the better number is better, as published; negative where the text contradicts it."""
        if not self.better.printed:
            return None
        difference = self.better.value - self.worse.value
        return difference if self.higher_is_better else -difference


@functools.cache
def of_paper() -> tuple[Claim, ...]:
    """All claims, in the order of the paper's tables; those of figures come last."""
    tables = [claim for name in reported.tables() for claim in _of_table(name)]
    return (*tables, *_of_figures())


def at(scale: str) -> list[Claim]:
    """The claims at a scale, each comparison of two places once, by the first table that has it."""
    found: dict[tuple[object, ...], Claim] = {}
    for claim in of_paper():
        places = (experiments.place(line, scale) for line in (claim.better, claim.worse))
        found.setdefault((*places, _quantity(claim.better)), claim)
    return [claim for (better, worse, *_), claim in found.items() if better != worse]


def is_testable(claim: Claim, scale: str) -> bool:
    """Whether the scale has a workload and a metric that stand for those of the claim."""
    has_metric = claim.better.metric in OF_FIGURES or quantity(claim.better, scale) is not None
    return has_metric and is_decidable(claim.better, scale)


def _quantity(line: Reported) -> str:
    return HOURS if line.metric.startswith(HOURS) else line.metric


def _of_table(name: str) -> Iterator[Claim]:
    if name.startswith("lr_grid"):
        return  # at each rate; the best rates of both are in other tables
    groups: dict[tuple[str, ...], list[Reported]] = {}
    for line in reported.of_table(name):
        groups.setdefault((line.dataset, line.model, line.metric), []).append(line)
    for lines in groups.values():
        pairs = [
            (one, other)
            for one, other in permutations(lines, 2)
            if _against_baseline(one, other) or _against_default_p(one, other)
        ]
        pairs += [pair for pair in combinations(lines, 2) if _against_kin(*pair)]
        pairs += _neighbours(lines)
        yield from filter(None, (_claim(*pair) for pair in dict.fromkeys(pairs)))


def _claim(one: Reported, other: Reported) -> Claim | None:
    """The ordering of two published numbers; None if they are equal and the text is silent."""
    claim = Claim(one, other)
    gap = claim.gap()
    assert gap is not None
    if (one.table, one.dataset) in _BEST_BY_TEXT and _DEFAULT_P in (one.setting.p, other.setting.p):
        return claim if one.setting.p == _DEFAULT_P else Claim(other, one)
    if gap == 0:
        return None
    return claim if gap > 0 else Claim(other, one)


# --- which pairs a table compares ---


def _against_baseline(one: Reported, other: Reported) -> bool:
    base = _BASE.get(one.setting.optimizer)
    if base is None or other.setting.optimizer in _BASE:
        return False
    return not one.table.startswith(_ABLATIONS) or other.setting.optimizer == base


def _against_kin(one: Reported, other: Reported) -> bool:
    """Two heavy-tailed optimizers with the same interval; outside of ablations also of the same p."""
    a, b = one.setting, other.setting
    kin = frozenset({a.optimizer, b.optimizer})
    if kin not in _KIN or a.interval != b.interval:
        return False
    return kin != {"htmuon", "htmuon_normuon"} or not one.table.startswith(_ABLATIONS)


def _against_default_p(one: Reported, other: Reported) -> bool:
    a, b = one.setting, other.setting
    return a.optimizer == b.optimizer and a.p == _DEFAULT_P and b.p not in (None, a.p)


def _neighbours(lines: Iterable[Reported]) -> list[tuple[Reported, Reported]]:
    """Of each optimizer, each interval with the next longer one."""
    own: dict[str, list[Reported]] = {}
    for line in lines:
        if line.setting.interval is not None and line.setting.p in (None, _DEFAULT_P):
            own.setdefault(line.setting.optimizer, []).append(line)
    ordered = [sorted(rows, key=lambda line: line.setting.interval or 0) for rows in own.values()]
    return [pair for rows in ordered for pair in zip(rows, rows[1:], strict=False)]


# --- figures whose numbers are not published ---


def _of_figures() -> Iterator[Claim]:
    llamas = [("c4", "llama-60m"), ("c4", "llama-135m")]
    nets = [(data, model) for model in ("resnet50", "resnet18") for data in ("cifar100", "cifar10")]
    muon, htmuon = Setting("muon"), Setting("htmuon", p=_DEFAULT_P, rank_exponent=None, interval=1)
    fixed_tail = Setting("htmuon_ht", rank_exponent=0.25, interval=1)
    for place in llamas:
        yield _drawn("muon_ns_vs_svd", place, "perplexity", muon, Setting("muon_svd"))
    for place in llamas:
        yield _drawn("alpha_teaser", place, ALPHA, Setting("cosmos"), muon)
    for place in (*llamas, *nets):
        yield _drawn("alpha_layers", place, ALPHA, htmuon, muon)
    for place in llamas:
        yield _drawn("alpha_layers_more", place, ALPHA, fixed_tail, muon)
    for metric in (SPECTRAL_NORM, FROBENIUS):
        for place in llamas:
            yield _drawn("norms", place, metric, htmuon, muon)
    for place in llamas:
        yield _drawn("loss", place, TRAIN_LOSS, htmuon, muon)


def _drawn(figure: str, place: tuple[str, str], metric: str, better: Setting, worse: Setting) -> Claim:
    lines = (
        Reported(figure, *place, setting.optimizer, setting, None, "", metric, "")
        for setting in (better, worse)
    )
    return Claim(*lines)


def _label(line: Reported, other: Reported) -> str:
    """The row of a number, with the hyperparameters in which the other one differs."""
    own, its = line.setting, other.setting
    parts = [own.optimizer]
    shows_p = own.p is not None and (own.p != _DEFAULT_P or its.p not in (None, own.p))
    parts += [f"p={own.p:g}"] if shows_p else []
    several = own.interval is not None and (own.interval != 1 or its.interval not in (None, 1))
    parts += [f"interval {own.interval}"] if several else []
    return ", ".join(parts)
