"""Anybody's results: a CSV file with a line per run, as rows of the frame, for `htbench judge`.

Such rows have no rule of the zoo, so none of our defaults is held against their settings.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from htbench.harness.choice.winner import grouped
from htbench.harness.errors import UsageError, nearest
from htbench.harness.show.status import Status
from htbench.harness.store.points import REPLICATE, SEARCH, SEED_FIELDS
from htbench.results.frames.columns import FIRST
from htbench.results.frames.identity import column
from htbench.results.frames.metrics import TASK
from htbench.results.frames.run_row import Row

# Columns that only such rows have: the name of the file, and the split of the values that are reported.
FILE, SPLIT = "file", "split"

_TAKEN = (*FIRST, *TASK, FILE, SPLIT, "line")
_WORKLOAD = ("workload", "task", "model", "setting")
_STAGES = {"search": SEARCH, "fresh": REPLICATE}
_SPLIT = re.compile(r"(val|test|train)[_/]")  # what columns of metrics begin with
_SHORT = {"acc": "accuracy", "ppl": "perplexity"}
_BOUNDS = {"accuracy": (0, 1, "; divide percentages by 100"), "perplexity": (1, math.inf, "")}
_LOWER = "loss nll perplexity error err mse rmse mae bpb bits_per_byte cross_entropy wer steps seconds"
_HIGHER = "accuracy top1 top5 f1 auc map bleu precision recall r2"
_DIRECTIONS = dict.fromkeys(_LOWER.split(), False) | dict.fromkeys(_HIGHER.split(), True)


def read_runs(
    path: Path, row: str = "optimizer", metric: str = "val_loss", higher_is_better: bool | None = None
) -> list[Row]:
    """The runs of a file, sorted: neither the order of its lines nor that of its columns matters.

    With a column `stage` its lines of the search choose by the metric, and fresh ones are reported, by the
    same metric of the test split where the file has it. Without it every line is reported. Columns that begin
    with a split are metrics; those that have no meaning of their own are settings.

    Args:
        path: a CSV file, in UTF-8 and with commas.
        row: the column whose words become the rows of the answer.
        metric: the column that is judged.
        higher_is_better: its direction; None: by its name.

    Raises:
        UsageError: a column is missing, a cell is not what its column needs, or two lines tell one run.
    """
    lines = _read_lines(path)
    header = list(lines[0].cells)
    for name, option in ((row, " or --row COLUMN"), ("seed", ""), (metric, " or --metric COLUMN")):
        if name not in header:
            raise UsageError(f"'{path}' needs a column '{name}'{option}; {nearest(name, header)}")
    judged = _Judged.of_column(metric, header, higher_is_better)
    apart = {row, metric, "stage", "steps", *SEED_FIELDS, *_WORKLOAD}
    names = [name for name in header if name not in apart and not _SPLIT.match(name)]
    pairs = zip(lines, _read_settings(lines, names), strict=True)
    runs = [_read_run(line, row, judged, settings) for line, settings in pairs]
    runs.sort(key=lambda run: (*_find_place(run), run["stage"] != SEARCH, run["candidate"], run["seed"]))
    alike = grouped(runs, lambda run: (*_find_place(run), run["stage"], run["candidate"], run["seed"]))
    for first, *copies in alike.values():
        if copies:
            raise UsageError(
                f"'{path}', line {copies[0]['line']}: {first['optimizer']} with seed {first['seed']} and the "
                f"same settings is in line {first['line']}, too; a run has one line."
            )
    return [run | {"key": f"{at}"} for at, run in enumerate([*runs, *_add_searches(path, runs)])]


@dataclass(frozen=True)
class _Line:
    """A line of the file: its number, and its cells by column, without spaces around them."""

    path: Path
    number: int
    cells: Mapping[str, str]

    def refusal(self, problem: str) -> UsageError:
        return UsageError(f"'{self.path}', line {self.number}: {problem}.")

    def read_number(self, name: str, whole: bool = False) -> float:
        """A cell as a number; one that need not be whole need not be finite, as a run may diverge."""
        text = self.cells[name]
        value = _number(text)
        if value is None or (whole and not value.is_integer()):
            hint = "" if text or whole else "; a run that diverged has nan"
            raise self.refusal(f"{name} is '{text}', which is no {'whole ' if whole else ''}number{hint}")
        return value

    def read_optional(self, name: str) -> float:
        """The same, NaN where the file says nothing."""
        return self.read_number(name) if self.cells.get(name) else math.nan


@dataclass(frozen=True)
class _Judged:
    """What is judged.

    Attributes:
        column: by which settings are chosen.
        reported: the column of the values that are reported.
        name: of the metric, without its split.
        higher_is_better: its direction.
    """

    column: str
    reported: str
    name: str
    higher_is_better: bool

    @classmethod
    def of_column(cls, metric: str, header: Sequence[str], higher_is_better: bool | None) -> _Judged:
        name = _SPLIT.sub("", metric, count=1)
        name = _SHORT.get(name, name)
        if higher_is_better is None:
            ends = (end for end in _DIRECTIONS if name == end or name.endswith(f"_{end}"))
            higher_is_better = next((_DIRECTIONS[end] for end in ends), None)
        if higher_is_better is None:
            raise UsageError(f"Is a high {metric} good? Say so by --higher-is-better or --lower-is-better.")
        test = re.sub("^val(?=[_/])", "test", metric)
        return cls(metric, test if test in header else metric, name, higher_is_better)

    @property
    def split(self) -> str:
        match = _SPLIT.match(self.reported)
        return match[1] if match else ""

    def read_value(self, line: _Line, name: str) -> float:
        """A value of the metric in a column; NaN if it is not finite."""
        value = line.read_number(name)
        least, most, hint = _BOUNDS.get(self.name, (-math.inf, math.inf, ""))
        if math.isfinite(value) and not least <= value <= most:
            raise line.refusal(f"{name} is {line.cells[name]}, which is not in [{least:g}, {most:g}]{hint}")
        return value if math.isfinite(value) else math.nan


def _read_run(line: _Line, name: str, judged: _Judged, settings: Row) -> Row:
    cells, staged = line.cells, "stage" in line.cells
    stage = _STAGES.get(cells["stage"]) if staged else SEARCH
    if stage is None:
        raise line.refusal(f"stage is '{cells['stage']}', but only 'search' and 'fresh' are known")
    if not cells[name]:
        raise line.refusal(f"{name} is empty")
    chosen_elsewhere = stage == REPLICATE and judged.reported != judged.column and not cells[judged.column]
    value = math.nan if chosen_elsewhere else judged.read_value(line, judged.column)
    end = value if staged and stage == SEARCH else judged.read_value(line, judged.reported)
    task = " · ".join(filter(None, (cells.get("workload"), cells.get("task")))) or line.path.stem
    seed = int(line.read_number("seed", whole=True))
    present = {at: value for at, value in sorted(settings.items()) if value == value}
    return {
        **dict.fromkeys(FIRST, ""),
        **{"sweep": line.path.name if staged else "", "stage": stage, "look": 0, "allowed": 0},
        **{"task": task, "model": cells.get("model", ""), "setting": cells.get("setting", "")},
        "state": str(Status.DIVERGED if math.isnan(end) else Status.COMPLETED),
        "score": None if math.isnan(value) else (-value if judged.higher_is_better else value,),
        "candidate": repr((cells[name], present)),
        "optimizer": cells[name],
        **settings,
        "seed": seed,
        "data_seed": int(line.read_number("data_seed", whole=True)) if cells.get("data_seed") else seed,
        **{FILE: line.path.name, SPLIT: judged.split, "line": line.number},
        **{f"val_{judged.name}": value, f"test_{judged.name}": end},
        "test_samples": line.read_optional(f"{judged.split}_samples"),
        "steps": line.read_optional("steps"),
        **dict(zip(TASK, (FILE, judged.name, judged.higher_is_better), strict=True)),
    }


def _read_settings(lines: Sequence[_Line], names: Sequence[str]) -> list[Row]:
    """The settings of each line by the frame's column: numbers where all of a column are; NaN if missing."""
    settings: list[Row] = [{} for _ in lines]
    for name in sorted(names, key=lambda name: (name not in ("lr", "p"), name)):
        texts = ["" if line.cells[name].lower() == "nan" else line.cells[name] for line in lines]
        are_numbers = all(_number(text) is not None for text in texts if text)
        for row, text in zip(settings, texts, strict=True):
            value = _number(text) if are_numbers else text
            row[column(f"optimizer.{name}", _TAKEN)] = value if text else math.nan
    return settings


def _number(text: str) -> float | None:
    """A cell as a number, such as `3.28`, `1e-3` or `nan`; None: it is none."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


# --- the lines ---


def _read_lines(path: Path) -> list[_Line]:
    """The lines with a run, at least one."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"'{path}' can't be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"'{path}' is no text in UTF-8: byte {error.start} is {error.object[error.start]}."
        ) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    lines, header = list[_Line](), list[str]()
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            if header and any(cells):
                if len(cells) != len(header):
                    raise UsageError(
                        f"'{path}', line {reader.line_num}: it has {len(cells)} cells, not {len(header)}."
                    )
                lines.append(_Line(path, reader.line_num, dict(zip(header, cells, strict=True))))
            header = header or cells
    except csv.Error as error:
        raise UsageError(f"'{path}', line {reader.line_num}: {error}.") from None
    if twice := next((name for name in header if header.count(name) > 1), None):
        raise UsageError(f"'{path}' has two columns '{twice}'; rename or remove one.")
    if not lines:
        raise UsageError(f"'{path}' has no line with a run; it needs a header and a line per run.")
    return lines


def _find_place(run: Row) -> tuple[str, ...]:
    return run["task"], run["model"], run["setting"], run["optimizer"]


def _add_searches(path: Path, runs: Sequence[Row]) -> list[Row]:
    """A row of a search for each optimizer of which all lines are fresh: nothing was chosen.

    Raises:
        UsageError: a fresh line has a setting that no line of the search has, where there is a choice.
    """
    added = []
    for optimizer_runs in grouped(runs, _find_place).values():
        searched = {run["candidate"] for run in optimizer_runs if run["stage"] == SEARCH}
        if not searched and len({run["candidate"] for run in optimizer_runs}) == 1:
            blank: Row = {name: math.nan for name in optimizer_runs[0] if name.startswith(("val_", "test_"))}
            blank |= {"stage": SEARCH, "state": str(Status.COMPLETED), "score": (0.0,)}
            added.append(optimizer_runs[0] | blank | dict.fromkeys(SEED_FIELDS))
            continue
        for run in optimizer_runs:
            if run["candidate"] not in searched:
                raise UsageError(
                    f"'{path}', line {run['line']}: {run['optimizer']} is fresh with a setting that no line "
                    "of the search has; add what it was chosen among."
                )
    return added
