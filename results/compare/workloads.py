"""What holds over several workloads, and what a smaller budget of settings would have given."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from htbench.results.compare.ranges import Array

LEAST_OF_PROFILE = 8  # workloads; a profile of fewer is a few steps


def expected_best(values: Sequence[float], k: int, *, higher_is_better: bool = False) -> float:
    """The mean of the best of k settings, drawn without replacement from those that were tried.

    With the m values in order, the best first, the i-th is the best of the draw in C(m - i, k - 1) of C(m, k)
    cases.

    Args:
        values: of all settings that were tried.
        k: how many are drawn, from 1 to all.
        higher_is_better: of the values.

    Raises:
        ValueError: there are not so many settings.

    Source: Dodge et al., Show your work, EMNLP 2019, which draws with replacement; without it is unbiased:
    Tang et al., Showing your work doesn't always work, ACL 2020.
    """
    m = len(values)
    if not 1 <= k <= m:
        raise ValueError(f"{k} settings can't be drawn from {m}; it must be 1 to {m} of them.")
    ordered = np.sort(values)[:: -1 if higher_is_better else 1]
    chances = np.array([math.comb(m - i, k - 1) for i in range(1, m + 1)], dtype=float) / math.comb(m, k)
    possible = chances > 0  # the worst are never the best of several, and may be infinitely bad
    return float(chances[possible] @ ordered[possible])


def performance_profile(costs: Array, factors: Sequence[float]) -> Array:
    """The share of workloads on which each rule costs at most so many times the least cost there.

    Args:
        costs: rules by workloads, positive; infinite where a rule never reached the target. Every workload
            has a finite cost.
        factors: at least 1.

    Returns:
        rules by factors.

    Source: Dolan and More, Benchmarking optimization software with performance profiles, Mathematical
    Programming 91, 2002.
    """
    ratios = costs / costs.min(axis=0)
    return (ratios[:, :, None] <= np.asarray(factors)).mean(axis=1)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class RuleEffect:
    """A rule over all workloads: its mean log gap to the reference, the error of that, and its p-value."""

    rule: str
    gap: float
    error: float
    p_value: float


def compare_over_workloads(
    rules: Sequence[str], workloads: Sequence[str], values: Sequence[float], reference: str
) -> list[RuleEffect]:
    """The gap of each rule to a reference, where rules differ by more on one workload than on another.

    The model is value ~ rule + (1 | workload) + (1 | workload:rule), fitted by REML: the seeds of a workload
    are no further workloads. With one value for each rule on each workload the last part is the residual.

    Args:
        rules, workloads, values: of each run; values as log loss.
        reference: the rule that the others are compared with.

    Raises:
        ValueError: the reference has no run, or there are fewer than two workloads.

    Source: Laird and Ware, Random-effects models for longitudinal data, Biometrics 38, 1982; `statsmodels`.
    """
    if reference not in rules:
        raise ValueError(f"The rule '{reference}' has no run; choose one of {', '.join(sorted(set(rules)))}.")
    if len(set(workloads)) < 2:
        raise ValueError("Rules can only be compared over workloads if there are at least two.")
    import pandas as pd
    from scipy import special
    from statsmodels.regression.mixed_linear_model import MixedLM

    names = [reference, *sorted(set(rules) - {reference})]  # the first one is that of the intercept
    frame = pd.DataFrame({"rule": pd.Categorical(list(rules), names), "workload": workloads, "value": values})
    both = {"vc_formula": {"rule": "0 + C(rule)"}} if frame.duplicated(["rule", "workload"]).any() else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a variance of 0 is an answer, too
        fit = MixedLM.from_formula("value ~ C(rule)", frame, groups="workload", re_formula="1", **both).fit()
    gaps, errors = fit.fe_params.to_numpy()[1:], fit.bse_fe.to_numpy()[1:]
    # As in blocks; the normal law is too sure of few workloads.
    freedom = (len(set(workloads)) - 1) * (len(names) - 1)
    p_values = 2 * special.stdtr(freedom, -np.abs(gaps / errors))
    return [
        RuleEffect(name, *map(float, row))
        for name, *row in zip(names[1:], gaps, errors, p_values, strict=True)
    ]
