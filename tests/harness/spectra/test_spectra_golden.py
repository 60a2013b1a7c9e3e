"""Numbers of the programs that others use: the group's code, weightwatcher, powerlaw, FARMS, numpy.

Another folder of the same format can take the place of ours (`HTBENCH_GOLDEN_SPECTRUM`): cases, tolerances
and what to skip come from its files.
"""

import dataclasses
import json
import os
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
import torch

from htbench.harness.spectra.esd import esd, singular_values
from htbench.harness.spectra.tail import fit_alpha
from htbench.optimizers.spectral.exact import rank_power, svd_power
from htbench.optimizers.spectral.newton_schulz import newton_schulz
from tests.helpers.spectra import ks_scan, layer_table

GOLDEN = Path(os.environ.get("HTBENCH_GOLDEN_SPECTRUM", Path(__file__).parents[2] / "golden" / "spectrum"))
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())
META, SKIP = EXPECTED["meta"], EXPECTED["meta"]["skip"]
ESD, WEIGHTS, UPDATES = (np.load(GOLDEN / f"{name}_cases.npz") for name in ("esd", "weight", "update"))

# The file has estimators, too, that are not ours.
for _case in (*EXPECTED["esd"].values(), *EXPECTED["weights"].values()):
    for _tool in [tool for tool in _case if tool.startswith(("farms", "group_xmin_peak"))]:
        del _case[_tool]

torch.set_num_threads(1)


def tolerance(beginning):
    """The tolerance whose description begins so."""
    (found,) = (value for name, value in META["tolerances"].items() if name.startswith(beginning))
    return found


class Comparison:
    """Counts what is compared, by tool, and keeps what is wrong."""

    def __init__(self):
        self.counts, self.wrong = Counter(), []

    def __call__(self, case, tool, name, found, expected, **limit):
        self.counts[tool] += 1
        if expected is None:  # not finite
            close = not np.all(np.isfinite(found))
        else:
            close = found == pytest.approx(expected, **{"rel": 0, "abs": 0, **limit})
        if not close:
            self.wrong.append(f"{case} {tool} {name}: {found}, expected {expected}, within {limit}")

    def report(self, title):
        print(f"\n{title}: {self.counts.total()} numbers compared ({dict(self.counts)})")
        assert not self.wrong, "\n".join(self.wrong)


# --- spectra ---

WW_CUT = 1e-5  # eigenvalues that weightwatcher and `filter_zeros` drop
KS = ("alpha", "D", "xmin", "sigma", "n_tail", "n_used")


def ours(tool, evals):
    """Our fit by the method that a tool has."""
    return {
        "group_median": lambda: fit_alpha(evals),
        "group_median_filter_zeros": lambda: fit_alpha(evals[evals > WW_CUT]),
        "group_goodness_of_fit": lambda: fit_alpha(evals, "ks"),
        "weightwatcher_ks": lambda: fit_alpha(evals, "ks", cut=WW_CUT),
        "powerlaw1.5": lambda: fit_alpha(evals, "ks"),
        "powerlaw2_alpha_ge_1": lambda: fit_alpha(evals, "ks"),
    }[tool]()


def is_skipped(tool, case):
    """Whether meta.skip names both: `esd powerlaw1.5 / powerlaw2_* on case "ties"`."""
    skipped = [key for key in SKIP if key.startswith("esd ") and f'case "{case}"' in key]
    words = [word for key in skipped for word in key.split(" on case")[0].removeprefix("esd ").split(" / ")]
    return any(fnmatchcase(tool, word) for word in words)


def esd_comparisons():
    for case, tools in EXPECTED["esd"].items():
        for tool in tools.keys() - {"n", "closed_form"}:
            if not is_skipped(tool, case):
                yield case, tool, tools[tool]


def test_spectra():
    compare, done = Comparison(), 0
    rel = {"median": tolerance("esd group_median"), "other": tolerance("esd ks")}
    for case, tool, expected in esd_comparisons():
        done += 1
        evals = ESD[case]
        ties = EXPECTED["esd"][case]["weightwatcher_ks"]["gap_to_second_best_D"] < 1e-6
        if tool == "powerlaw2_default":
            below_three(compare, case, evals, expected)
            continue
        found = dataclasses.asdict(ours(tool, evals))
        # Others count what equals xmin, too, if the tail begins within equal eigenvalues.
        found["n_tail"] = np.count_nonzero(evals >= found["xmin"])
        alpha = rel["median" if "median" in tool else "other"]
        for name in KS:
            if name in expected and not (ties and "median" not in tool and name != "D"):
                limit = {"abs": tolerance("esd D")} if name == "D" else {"rel": alpha}
                compare(case, tool, name, found[name], expected[name], **limit)
    compare.report(f"{done} fits of {len(EXPECTED['esd'])} spectra")
    assert compare.counts.keys() == {tool for _, tool, _ in esd_comparisons()}
    skipped = [
        (case, tool)
        for case, tools in EXPECTED["esd"].items()
        for tool in tools.keys() - {"n", "closed_form"}
        if is_skipped(tool, case)
    ]
    fits = sum(len(tools.keys() - {"n", "closed_form"}) for tools in EXPECTED["esd"].values())
    assert done == fits - len(skipped) > 0


def below_three(compare, case, evals, expected):
    """powerlaw 2 takes the nearest candidate with an exponent up to 3; without one it returns 3."""
    evals = np.sort(evals[evals > 0])
    alphas, distances = ks_scan(evals)
    low = np.flatnonzero((alphas > 1) & (alphas <= 3))
    if len(low) == 0 or evals[low].min() > expected["xmin"]:
        compare(case, "powerlaw2_default", "alpha", 3.0, expected["alpha"], rel=1e-6)
        return
    best = low[np.argmin(distances[low])]
    compare(case, "powerlaw2_default", "alpha", alphas[best], expected["alpha"], rel=tolerance("esd ks"))
    compare(case, "powerlaw2_default", "D", distances[best], expected["D"], abs=tolerance("esd D"))


def test_closed_form():
    cases = {case: tools["closed_form"] for case, tools in EXPECTED["esd"].items() if "closed_form" in tools}
    for case, expected in cases.items():
        alpha = fit_alpha(ESD[case]).alpha
        assert alpha == pytest.approx(expected["hill_mid_exact"], rel=tolerance("closed_form"))
        assert alpha > expected["lemma"]
    print(f"\nclosed form: {len(cases)} spectra compared")
    assert cases


# --- weights ---


def test_weights():
    compare = Comparison()
    assert set(WEIGHTS.files) == set(EXPECTED["weights"])
    for case, expected in EXPECTED["weights"].items():
        group(compare, case, expected)
        weightwatcher(compare, case, expected["weightwatcher"])
        row = table(case).iloc[0]
        for name, value in expected.get("numpy", {}).items():
            compare(case, "numpy", name, row[name], value, rel=tolerance("sigma_max, fro"))
    compare.report(f"{len(EXPECTED['weights'])} weights")
    tools = {tool.partition("_ops")[0] for row in EXPECTED["weights"].values() for tool in row}
    assert compare.counts.keys() == tools - {"shape", "ks_gap_to_second_best_D"}


def table(case, method="hill_mid"):
    return layer_table({case: WEIGHTS[case]}, method=method, include="all")


def group(compare, case, expected):
    median, scale = expected["group_median"], 0.5 if WEIGHTS[case].ndim > 2 else 1.0
    row = table(case).iloc[0]
    alpha = tolerance("weight group_median")
    compare(case, "group_median", "alpha", fit_alpha(esd(WEIGHTS[case])).alpha, median["alpha"], rel=alpha)
    compare(case, "group_median", "n_eigs", row["n_eigs"], median["n_eigs"])
    for name in ("lambda_max", "sum_lambda", "stable_rank"):  # the group's are of the scaled kernel
        factor = 1.0 if name == "stable_rank" else scale
        compare(case, "group_median", name, factor * row[name], median[name], rel=tolerance("lambda_max"))
    gap = expected["ks_gap_to_second_best_D"] >= 1e-5
    small = case.startswith(("rankdef", "synth"))
    ks = tolerance("weight rankdef/synth" if small else "weight goodness_of_fit")
    if gap:
        value = expected["group_goodness_of_fit"]["alpha"]
        compare(case, "group_goodness_of_fit", "alpha", table(case, "ks").iloc[0]["alpha"], value, rel=ks)


def weightwatcher(compare, case, expected):
    evals = esd(WEIGHTS[case])
    fit = fit_alpha(evals, "ks", cut=WW_CUT)
    rel = tolerance("weightwatcher alpha")
    for name in ("alpha", "xmin", "sigma"):
        compare(case, "weightwatcher", name, getattr(fit, name), expected[name], rel=rel)
    compare(case, "weightwatcher", "D", fit.D, expected["D"], abs=tolerance("esd D"))
    compare(case, "weightwatcher", "num_evals", len(evals), expected["num_evals"])
    compare(case, "weightwatcher", "spectral_norm", evals[-1], expected["spectral_norm"], rel=rel)
    compare(case, "weightwatcher", "norm", evals.sum(), expected["norm"], rel=rel)


# --- updates ---

MAPS = {
    "input": lambda M: M,
    "muon_ns5_bf16": lambda M: newton_schulz(M, 5, torch.bfloat16),
    "muon_svd": lambda M: svd_power(M, 0.0),
    "htmuon_p0.125": lambda M: svd_power(M, 0.125),
    "htmuon_p0.25": lambda M: svd_power(M, 0.25),
    "htmuon_ht_0.25": lambda M: rank_power(M, 0.25),
}


def test_singular_values_of_updates():
    compare, lists = Comparison(), 0
    for case, kinds in EXPECTED["updates"].items():
        for kind, expected in kinds.items():
            found = singular_values(MAPS[kind](torch.tensor(UPDATES[case])))
            bf16 = "bf16" in kind
            limit = (
                {"abs": tolerance("update muon_ns5")}
                if bf16
                else {"rel": tolerance("update singular values")}
            )
            compare(case, kind, "sigma", found, np.array(expected), **limit)
            lists += 1
    compare.report("lists of singular values")
    assert lists == sum(map(len, EXPECTED["updates"].values())) > 0
