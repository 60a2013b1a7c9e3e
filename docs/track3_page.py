"""Writes docs/track3.md and its figure from the data in results/track3. It needs no store.

python -m docs.track3_page            prints the page
python -m docs.track3_page --write    writes it into docs/
"""

import argparse
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from docs.reproduction_page import readable, smaller
from harness.show.report import Report, Section
from harness.store import Store
from results.figures.files import update, views
from results.track3 import data, verdicts
from results.track3.recomputed import Result, committed
from results.track3.table import NAME, TITLE, every, one_scale, records, seeds
from results.track3.verdicts import NOT_SHOWN, Pair, Verdict

PLACE = Path(__file__).with_name("track3.md")
PICTURE = Path(__file__).parent / "track3" / "track3.png"

_HEAD = """\
# Runs that others made: the nanoGPT optimization benchmark

Written by `python -m docs.track3_page --write` from the data in `results/track3`. Don't edit it.

The benchmark ("track 3" of [modded-nanogpt](https://github.com/KellerJordan/modded-nanogpt)) asks for the
optimizer that trains a GPT-2 of 124M parameters on FineWeb to a validation loss of 3.28 in the fewest steps.
Data, batch and architecture are the same in every run. None of its runs is ours. We took the numbers of its
public logs, state of 2026-08-01, and asked: do the published numbers follow from the public runs, do our
statistics come to the same verdicts, and how far do runs lie apart that differ in their seed only?

Beside [the ladder](ladder.md#beside-the-work-of-others), at more than five hundred times its parameters:
Adam took 5,625 steps (result 2; "most likely undertuned", says the benchmark), the first Muon 3,600 (result
1), one run each. Muon leaves embedding, head and vectors to an Adam here. With new rates for these, and a
new rate and decay for itself, it went from 3,325 steps (result 12) to 3,250 (result 36); our test tells the
two apart. No result is HTMuon's.

```sh
htbench table track3     # no store needed; also --format csv, latex, html
htbench figure track3
```"""

_TRAIN = """\
## Train it yourself

Its model is `modded-gpt-small`, its data are the task `fineweb`; `sweeps/track3` has ten rows under one
budget.

```sh
htbench sweep plan sweeps/track3/track3-leaders.yaml                     # what is to run
htbench data prepare fineweb --for sweeps/track3/track3-leaders.yaml     # 18 files, 3.6 GB
htbench sweep run sweeps/track3/track3-leaders.yaml                      # or sweep submit
htbench table main_result                # on test text that no choice has seen
htbench table track3                     # the benchmark's rule beside our test, on its validation tokens
htbench figure to_target                 # steps until 3.28
htbench sweep run sweeps/track3/track3-nano.yaml                     # the same path in minutes, on pydocs
```

Each row gets five rates by three weight decays with one seed, and its best setting five fresh seeds; the
AdamW of embedding, head and vectors is that of the tuned baseline (result 36) in all rows. The public runs on
H100, most of them on eight, took 0.19 s a step in the median, which is 1.4 GPU-hours for such a run.

What is the same, and how we know: logits and gradients of the model on given weights (equal to those of the
program's own model in float32, within rounding in bfloat16; `tests/golden/modded_gpt.json`), its
162,354,816 parameters (124M counts a head tied to the embedding; here it is not), initial weights, training
and validation tokens, batch, schedule, steps, groups of AdamW. What differs:

- The embedding is stored in float32 and rounded to bfloat16 where it is read; there it is stored in
  bfloat16. Normed queries and keys are rounded once less.
- Rows are shuffled within a file by `data_seed`, which fresh seeds change; there all runs see the same
  order, and the end of a file that fills no batch is left out.
- Rules are rows of the zoo: `muon` has Jordan's five Newton-Schulz steps where the baseline has twelve
  convergent ones (`ns_coefficients`, `ns_steps`). Wrappers of records (floors, extrapolation, averages,
  momentum schedules) are not among the rows.
- Nobody has trained the full sweep here: it needs GPUs. The path was tried in miniature.

`steps to 3.28` in `table track3` moves the end of a run by what the benchmark says that a step is worth.
`to_target` takes the first evaluation below 3.28; a run whose schedule is longer than it need be reaches it
late."""
_BELOW = (
    "By the benchmark's rule a mean lies below 3.28 if (3.28 - mean) sqrt(n) is 0.004 or more. Our test is a "
    "t-test with the spread of the result's own runs, at 5% after Holm's correction."
)
_PAIRS = (
    "A record has fewer steps than all results before it; that alone does not make it better by more than "
    "chance. The benchmark has a second rule for this question, and we have Welch's t-test."
)
_CAUTION = (
    "{early} of {total} published steps lie before the end of their runs' learning-rate schedule. Where "
    "such a step was chosen after the runs, as the first one that passes, it is a little too early on "
    "average. Neither the rule nor our test corrects that.",
    "The comparison of two results rests on what 100 steps are worth, 0.0045 by the benchmark. We did not "
    "measure it.",
    "The rule takes the spread over seeds for known. Our test knows it from a result's own runs only, and "
    "corrects for all results of the table. With the pooled spread it would find {pooled} of the {unsure} "
    "that are not shown.",
    "Results differ in hardware ({gpus}), and so do the runs of some results. The logs do not name seeds, so "
    "nothing is compared in pairs.",
)


def main(words: Sequence[str] | None = None) -> int:
    """Print or write the page."""
    parser = argparse.ArgumentParser(prog="python -m docs.track3_page", description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/")
    args = parser.parse_args(words)
    if not args.write:
        print(page(), end="")
        return 0
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(picture())
    PLACE.write_text(page(), encoding="utf-8")
    print(f"{PLACE}, {PICTURE}", file=sys.stderr)
    return 0


def page() -> str:
    """The whole page, as Markdown."""
    results = committed()
    found, pairs = verdicts.below_target(results), verdicts.records(results)
    parts = [
        *(_HEAD, "## What the logs hold", _filled(logs(results))),
        *("## What does not follow from the public runs", _list(missing(results))),
        *("## Below 3.28: where verdicts differ", _filled(_BELOW), _list(below(results, found))),
        *("## Better than the record before: where verdicts differ", _filled(_PAIRS), _list(better(pairs))),
        *("## Seed spread", _filled(str(seeds(results))), _picture()),
        _TRAIN,
        *("## What to keep in mind", _list(caution(results, found))),
        *("## The table", *(_section(make(results)) for make in (every, records, one_scale))),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def logs(results: Sequence[Result]) -> str:
    """How many runs there are, and how they were told apart."""
    runs = data.runs()
    own = sum(len(result.runs) for result in results)
    files = Counter((run.folder, run.log) for run in runs)
    several = sum(count > 1 for count in files.values())
    same = sum(result.reproduces for result in results)
    by_log = sum(_by_log(result, runs).reproduces for result in results)
    return (
        f"{len(files)} logs hold {len(runs)} runs: {several} of the logs hold several, one after the other, "
        f"each from the first step on. {own} runs belong to the {len(results)} results; the others are "
        f"copies, runs of another length, or of no result. **{same} of {len(results)} results reproduce:** "
        f"mean and number of runs are those that are printed, to the last digit. If each log is taken for "
        f"one run, of which the last evaluation of a step counts, only {by_log} do."
    )


def _by_log(result: Result, runs: Sequence[data.Run]) -> Result:
    """A result as if each log in its own folder were one run, its last one."""
    one = result.published
    own = [run for run in runs if run.folder == one.folder and (one.folder != data.TOP or run.log == one.log)]
    last = {run.log: run for run in own if one.steps in run.losses}
    return Result(one, tuple(last.values()))


# --- what differs ---


def missing(results: Sequence[Result]) -> Iterator[str]:
    """A line for each result that does not reproduce."""
    for result in results:
        if not result.reproduces:
            one = result.published
            yield f"**{one.number}** ({one.loss} at step {one.steps}, n = {one.n}): {result.missing}."


def below(results: Sequence[Result], found: Sequence[Verdict]) -> Iterator[str]:
    """Where rule and test differ on a mean below 3.28. The rule takes the printed numbers."""
    both = list(zip(results, found, strict=True))
    for result, one in both:
        if one.p is not None and one.published != (one.ours == "below"):
            spread = "" if result.summary is None else f", standard deviation {result.summary.std:.5f}"
            yield f"**{result.published.number}**: {_against(one)}; {len(result.runs)} runs{spread}."
    yield from _untested((str(one.published.number), verdict) for one, verdict in both if verdict.p is None)


def better(pairs: Sequence[Pair]) -> Iterator[str]:
    """Where rule and test differ on a record, and which records both do not tell from the one before."""
    both = [(_name(pair), one) for pair, one in zip(pairs, verdicts.compare(pairs), strict=True)]
    tested = [(name, one) for name, one in both if one.p is not None]
    for name, one in tested:
        if one.published != (one.ours == "better"):
            yield f"**{name}**: {_against(one)}."
    agreed = _count(one.published == (one.ours == "better") for _, one in tested)
    yield f"Rule and test agree on {agreed} of {len(tested)} records."
    yield _naming("Neither shows these to be better", (n for n, one in tested if one.ours == NOT_SHOWN))
    yield from _untested((name, one) for name, one in both if one.p is None)


def _untested(found: Iterable[tuple[str, Verdict]]) -> Iterator[str]:
    """What has no test of ours, apart by what the rule says."""
    found = list(found)
    for passes, word in ((True, "passes"), (False, "fails")):
        names = [f"{name} ({one.ours})" for name, one in found if one.published == passes]
        yield _naming(f"The rule {word} by the printed numbers, and we have no test", names)


def _name(pair: Pair) -> str:
    return f"{pair.new.published.number} after {pair.old.published.number}"


def _against(one: Verdict) -> str:
    rule = f"the rule {'passes' if one.published else 'fails'} by the printed numbers ({one.printed:.4f})"
    return f'{rule}, our test says "{one.ours}" (p-value {one.p:.3g})'


def caution(results: Sequence[Result], found: Sequence[Verdict]) -> Iterator[str]:
    """What neither the rule nor our test takes into account."""
    early = _count(one.runs and one.published.steps < one.runs[0].total_steps for one in results)
    both = zip(results, found, strict=True)
    unsure = [one.published.number for one, verdict in both if verdict.ours == NOT_SHOWN]
    pooled = len(verdicts.below_if_pooled(results).intersection(unsure))
    gpus = ", ".join(sorted({run.gpu for result in results for run in result.runs} - {""}))
    facts = {"early": early, "total": len(results), "unsure": len(unsure), "pooled": pooled, "gpus": gpus}
    return (line.format(**facts) for line in _CAUTION)


# --- Markdown ---


def _count(found: Iterable[object]) -> int:
    return sum(map(bool, found))


def _naming(what: str, names: Iterable[str]) -> str:
    return f"{what}: {', '.join(names) or 'none'}."


def _list(lines: Iterable[str]) -> str:
    return "\n".join(_filled(f"- {line}", "  ") for line in lines) or "None."


def _filled(text: str, indent: str = "") -> str:
    """A text in lines of up to 110 characters."""
    return textwrap.fill(text, 110, subsequent_indent=indent, break_on_hyphens=False)


def _section(section: Section) -> str:
    """One section of the table under a heading of this page."""
    text = readable(Report(NAME, TITLE, [section]))
    return text.partition("\n")[2].replace("#### ", "### ", 1)


def _picture() -> str:
    return f"![loss and steps against seed spread]({PICTURE.parent.name}/{PICTURE.name})"


def picture() -> bytes:
    """The figure as PNG."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "none")
        done = update(NAME, None, store, Path(folder), views(None, store, "published"))
        return smaller(next(path for path in done.paths if path.suffix == ".png").read_bytes())


if __name__ == "__main__":
    sys.exit(main())
