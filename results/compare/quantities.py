"""What each published metric is of one run: its value, unit and digits at every scale."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from htbench.harness.paper.reported import Reported
from htbench.harness.show.note import Note
from htbench.results.compare.select import Row
from htbench.results.frames import metrics
from htbench.results.frames.metrics import Metric

HOURS_TO = "hours_to_perplexity"  # what the names of such metrics begin with
# Metrics of multiple-choice questions, which no run of ours is asked.
QUESTIONS = (
    *("arc_challenge", "arc_easy", "piqa", "hellaswag", "openbookqa", "winogrande", "boolq"),
    "average",
)


@dataclass(frozen=True)
class Quantity:
    """A metric of a run.

    Attributes:
        metric: its name, unit (in the label), digits and direction.
        value: of a row of the frame and a split ("val", "test"); None if the run has none. In the unit of
            the label.
        column: the frame's, or that of a curve, which it is made of; empty if of several.
        note: how it is computed; None if there is nothing to say.
    """

    metric: Metric
    value: Callable[[Row, str], float | None]
    column: str = ""
    note: Note | None = None


def is_time(line: Reported) -> bool:
    """Whether a published number is a time."""
    return line.metric.startswith(("seconds_per_step", "hours"))


def is_decidable(line: Reported) -> bool:
    """Whether its scale can say anything of a published number.

    The ladder has twins of two language models only, and its times on a CPU say nothing of a GPU's.
    """
    return line.has_twin and not (line.scale == "ladder" and is_time(line))


def find_quantity(line: Reported) -> Quantity | None:
    """The quantity that stands for a published number at its scale.

    At full scale digits and unit are those of the print. A run in miniature takes seconds. None: nothing
    stands for it, as for the accuracies on multiple-choice questions.
    """
    name, is_full = line.metric, line.scale == "paper"
    if name == "perplexity" and is_full and line.dataset == "c4":
        biased, note = "{split}_loss_biased", Note("measured_biased")
        quantity = Quantity(metrics.PERPLEXITY, _read_biased_perplexity, biased, note=note)
    elif name == "perplexity":
        quantity = _read_column(metrics.PERPLEXITY, "{split}_perplexity")
    elif name == "accuracy":
        quantity = _read_column(metrics.ACCURACY, "{split}_accuracy")
    elif name == "seconds_per_step":
        full = _read_column(_time_metric("s/step", 1), "seconds_per_step")
        quantity = full if is_full else _make_own_time("ms/step", _seconds_per_step, 1000)
    elif name == "hours" or name.startswith(HOURS_TO):
        full = _read_column(_time_metric("hours", 1 / 3600), "useful_seconds")
        quantity = full if is_full else _make_own_time("seconds", _seconds_of_run, 1)
    else:
        return None
    if is_full and line.printed:
        return replace(quantity, metric=replace(quantity.metric, digits=line.digits))
    return quantity


def find_metric(line: Reported) -> Metric:
    """The metric of a published number in the words of its scale; in its own if nothing stands for it."""
    quantity = find_quantity(line)
    return quantity.metric if quantity else Metric(line.metric, line.metric.replace("_", " "), 100, 2, True)


def _read_column(metric: Metric, column: str) -> Quantity:
    def value(run: Row, split: str) -> float | None:
        return _scale(run.get(column.format(split=split)), metric.scale)

    return Quantity(metric, value, column)


def _time_metric(unit: str, factor: float) -> Metric:
    return Metric(unit.replace("/", "_per_"), unit, factor, 2, higher_is_better=False)


def _make_own_time(unit: str, seconds: Callable[[Row], float | None], factor: float) -> Quantity:
    """A time in miniature, on whatever machine people have."""
    note = Note("measured_own_time")
    return Quantity(_time_metric(unit, factor), lambda run, split: _scale(seconds(run), factor), note=note)


def _seconds_per_step(run: Row) -> float | None:
    """Seconds per step; of one thread on a CPU those that the process itself had."""
    cpu_seconds = run.get("cpu_seconds_per_step")
    alone = run.get("device") == "cpu" and run.get("threads") == 1 and run.get("processes") == 1
    return cpu_seconds if alone and metrics.is_number(cpu_seconds) else run.get("seconds_per_step")


def _seconds_of_run(run: Row) -> float | None:
    """The seconds of all steps."""
    step, steps = _seconds_per_step(run), run.get("steps")
    is_timed = metrics.is_number(step) and metrics.is_number(steps)
    return step * steps if is_timed and step is not None and steps is not None else run.get("useful_seconds")


def _read_biased_perplexity(run: Row, split: str) -> float | None:
    loss = _scale(run.get(f"{split}_loss_biased"), 1)
    return None if loss is None or loss > 700 else math.exp(loss)  # exp(710) overflows


def _scale(value: float | None, factor: float) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value) * factor
