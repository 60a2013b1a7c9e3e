"""The studies of a search and their slots, one slot per trial. It imports neither torch nor Optuna.

    <root>/sweeps/<sweep>/slots/<study>/study.json   what a job needs to ask for a trial
    <root>/sweeps/<sweep>/slots/<study>/<k>.json     slot k: {"study", "trial": number, "key", "overrides"}

A slot is filled once and never changed: every worker on slot k, also after a crash, works on the same run.
The name of a study ends with a digest of all its settings except the number of trials. So a changed file
makes new studies, and more trials extend the old ones.
"""

import dataclasses
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from htbench.harness.config import RunConfig, Value, hyper_schedules
from htbench.harness.config.key import identity, run_key
from htbench.harness.config.settings import param_of, resolve_config
from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.store import points as plans
from htbench.harness.store.points import SEARCH, Point, is_tuned
from htbench.harness.store.study import Axis, Study, find_study, study_path
from htbench.harness.system import atomic, seal
from htbench.harness.system.folders import make_folder
from htbench.sweeps.spec.search import Range
from htbench.sweeps.spec.sweep import Block, Settings, SweepSpec

Slots = Mapping[int, Mapping[str, Any]]  # what fills them, by their numbers

LONGEST = 225  # bytes: of the 255 of a file's name, `.journal` and the marks of a temporary file need 30


def study_name(words: Iterable[str]) -> str:
    """The name of a study, which is the name of files, too.

    Args:
        words: its sweep, its block and what else tells it apart, joined by dots; what does not belong into
            the name of a file becomes `_`. What is too long gets a digest in the place of its end.
    """
    name = re.sub(r"[^\w.=-]+", "_", ".".join(words))
    whole = name.encode()
    if len(whole) <= LONGEST:
        return name
    end = "." + hashlib.sha256(whole).hexdigest()[:12]
    return whole[: LONGEST - len(end)].decode(errors="ignore") + end


def replicas_of(study: str) -> str:
    """The name of the study of the replicas of another study's winner."""
    return study_name((f"{study}-replicas",))


def studies(spec: SweepSpec) -> list[Study]:
    """The studies of a search, in the order of the file.

    Raises:
        UsageError: a value that no run can have, or nothing to search.
    """
    rivals = spec.included((block, fixed) for block in spec.blocks for fixed in _objectives(spec, block))
    return [_study(spec, block, fixed) for block, fixed in rivals]


def points(spec: SweepSpec) -> list[tuple[Point, RunConfig]]:
    """All slots, empty, each with a config of its study. Slot 0 of every study first, then every slot 1 ...

    So the workers of a pool spread over the studies, and each study has many results when it is asked.
    """
    configs = [(study, resolve_config(study.fixed)) for study in studies(spec)]
    rows = {block.name: block.row for block in spec.blocks}
    return [
        (Point(spec.name, study.block, SEARCH, "", study.fixed, study.slot(n), row=rows[study.block]), config)
        for n in range(spec.search.trials)
        for study, config in configs
    ]


def write_studies(root: Path, spec: SweepSpec) -> None:
    """Write the file of every study. The caller holds the sweep's lock."""
    for study in studies(spec):
        known = _known(root, spec.name, study.name)
        if known != study:
            path = study_path(root, spec.name, study.name)
            make_folder(path.parent)
            value = dataclasses.asdict(study)
            value |= value.pop("rest") | (known.rest if known else {})
            atomic.write_json(path, seal.sealed(value))


def read_study(root: Path, sweep: str, name: str) -> Study:
    """A study as planned.

    Raises:
        UsageError: it was never planned, or its file is damaged.
    """
    study = _known(root, sweep, name)
    if study is None:
        path = study_path(root, sweep, name)
        raise UsageError(str(Note("study_missing", path=path, sweep=sweep)))
    return study


def _known(root: Path, sweep: str, name: str) -> Study | None:
    study = find_study(root, sweep, name)
    return study if study is not None and study.name == name and study.trials > 0 else None


def locked(root: Path, study: Study) -> AbstractContextManager[None]:
    """Hold the lock of a study's slots."""
    return atomic.locked(study_path(root, study.sweep, study.name).with_name(".lock"))


def read_slots(root: Path, study: Study) -> Slots:
    """The filled slots of a study by their number."""
    folder = study_path(root, study.sweep, study.name).parent
    numbers = sorted(int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit())
    read = {number: plans.read_slot(root, study.sweep, study.slot(number)) for number in numbers}
    return {number: content for number, content in read.items() if content is not None}


# --- from a sweep file to studies ---


def _objectives(spec: SweepSpec, block: Block) -> Iterator[Settings]:
    """The fixed settings of each study: one for each combination of values on the axes that are not tuned."""
    fixed = {name: values for name, values in block.space.items() if not is_tuned(name)}
    searched = block.space.keys() - fixed.keys()
    for row in spec.exclude:
        if shared := sorted(searched & row.keys()):
            raise UsageError(
                f"'exclude' can't hold {shared[0]}, which is searched; narrow its range instead."
            )
    for values in itertools.product(*(values for values in fixed.values() if isinstance(values, list))):
        yield spec.base | block.set | dict(zip(fixed, values, strict=True)) | spec.seed_settings[0]


def _study(spec: SweepSpec, block: Block, fixed: dict[str, Value]) -> Study:
    search = spec.search
    # A value for each searched part of a schedule, in its place until a trial draws it.
    parts = {name: values for name, values in block.space.items() if hyper_schedules.split(name)}
    fixed = {name: v[0] if isinstance(v, list) else v.low for name, v in parts.items()} | fixed
    try:
        config = resolve_config(fixed)
        if not config.program:
            block.resources.check(config.processes)
        space = sorted(block.space.items())  # so that draws do not depend on the order in the file
        axes = {name: _axis(config, fixed, name, values) for name, values in space if is_tuned(name)}
        if not axes:
            raise UsageError("there is nothing to search; give optimizer.lr, for example, a range.")
        size = 1.0
        for axis in axes.values():
            whole = axis["high"] - axis["low"] + 1 if axis.get("whole") else math.inf
            size *= len(axis["choices"]) if "choices" in axis else whole
        if size < search.trials:
            few = f"search.trials={search.trials} is more than its {size:g} settings"
            raise UsageError(f"{few}; use `search: {{mode: grid}}`.")
    except UsageError as error:
        raise UsageError(f"Sweep '{spec.name}', block '{block.name}': {error}") from None
    covered = [identity(config), axes, search.mode, search.seed, search.pruner, search.pruner_options]
    covered += [config.evaluation.every] if search.pruner else []
    digest = hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()[:6]
    values = [f"{name}={fixed[name]}" for name in block.space if not is_tuned(name)]
    terms = dataclasses.asdict(search)
    del terms["rate"]  # of mode `refine`, which has no study
    return Study(
        name=study_name((spec.name, block.name, *values, digest)),
        sweep=spec.name,
        block=block.name,
        fixed=fixed,
        axes=axes,
        **terms,
    )


def _axis(config: RunConfig, fixed: Mapping[str, Value], name: str, values: list[Value] | Range) -> Axis:
    # If both ends of a range are allowed, so is every value between them.
    tried = values if isinstance(values, list) else [values.low, values.high]
    if len({run_key(resolve_config({**fixed, name: value})) for value in tried}) < len(tried):
        raise UsageError(f"there is nothing to search in {name}: two of {tried} mean the same run.")
    if isinstance(values, list):
        return {"choices": values}
    whole = param_of(config.optimizer.name, name).type is int
    low, high = (int(values.low), int(values.high)) if whole else (values.low, values.high)
    return {"low": low, "high": high, "log": values.log, "whole": whole}
