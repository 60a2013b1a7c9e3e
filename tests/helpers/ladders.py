"""Ladders whose law is known: rungs with the noise of seeds, searches and documents, without any store."""

import numpy as np

from htbench.results.compare.items import Items
from htbench.results.compare.judge import Row
from htbench.results.compare.ladder_points import Rung
from htbench.results.compare.tuning import Search, Setting

BETA, SCALE = 0.55, 900.0
FLOORS = {"s1": 1.75, "s2": 1.6, "s3": 1.5}
PARAMETERS = {"s1": 45e3, "s2": 114e3, "s3": 238e3}
HORIZONS = {"s1": (5, 20, 80), "s2": (10, 20, 40), "s3": (10, 20, 40)}  # tokens per parameter
WORTH = {"adamw": 1.0, "muon": 1.5, "htmuon": 1.4}  # in AdamW's tokens
BATCHES, SEEDS = {"s1": 8, "s2": 16, "s3": 16}, {"s1": 16, "s2": 8, "s3": 4}
MAIN, SD, TOGETHER = 20, 0.004, 0.76  # tokens per parameter of all rules; noise of a run, and its shared part


def law(model, tokens):
    """AdamW's loss."""
    return FLOORS[model] + SCALE * tokens**-BETA


def rung(model, optimizer, ratio, losses, **more):
    """One rung; a step of it takes a second."""
    n = PARAMETERS[model]
    told = {
        "batch": BATCHES[model],
        "step_flops": 1.0,
        "step_seconds": 1.0,
        "conditions": ("cpu",),
    }
    search, items = more.pop("search", None), more.pop("items", None)
    row = Row(optimizer, {(i, i): float(x) for i, x in enumerate(losses)}, search, items)
    told |= {"parameters": n, "tokens": n * ratio, "row": row} | more
    return Rung(model=model, optimizer=optimizer, **told)


def exact(worth=WORTH, horizons=HORIZONS, **more):
    """Rungs without noise: two equal seeds each."""
    return [
        rung(model, name, ratio, [law(model, times * ratio * PARAMETERS[model])] * 2, **more)
        for model, ratios in horizons.items()
        for ratio in ratios
        for name, times in worth.items()
        if ratio == MAIN or name == "adamw"
    ]


def noisy(random, horizons=HORIZONS, documents=40):
    """Rungs as they come out of a search and its replicas, each scored on the same documents."""
    shared, found = 0.3 * random.standard_normal(documents), []
    for model, ratios in horizons.items():
        for ratio in ratios:
            n = SEEDS[model]
            together = TOGETHER**0.5 * SD * random.standard_normal(n)
            for name in WORTH if ratio == MAIN else ("adamw",):
                search, regret = _searched(random) if ratio == MAIN else (None, 0.0)
                level = law(model, WORTH[name] * ratio * PARAMETERS[model]) + regret
                runs = level + together + (1 - TOGETHER) ** 0.5 * SD * random.standard_normal(n)
                of_documents = shared + 0.005 * random.standard_normal(documents)
                sums = 100 * (runs[:, None] + of_documents)
                items = Items(sums, np.full(documents, 100.0), np.arange(documents))
                found.append(rung(model, name, ratio, sums.mean(axis=1) / 100, search=search, items=items))
    return found


def _searched(random):
    """A search over half-octaves with two seeds, and its regret beyond what such a search has on average."""
    rates, own = np.arange(-2.0, 2.1, 0.5), (1 - TOGETHER) ** 0.5 * SD
    worth = 0.02 * (rates - random.uniform(-0.5, 0.5)) ** 2
    seen = worth[:, None] + own * random.standard_normal((len(rates), 2))
    again = worth[:, None] + own / 2**0.5 * random.standard_normal((len(rates), 1000))
    chosen = seen.mean(axis=1).argmin()
    settings = [Setting(str(rate), list(row), rate) for rate, row in zip(rates, seen, strict=True)]
    return Search(settings, str(rates[chosen])), worth[chosen] - worth[again.argmin(axis=0)].mean()
