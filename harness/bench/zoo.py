"""The registries of optimizers, models and tasks as reports; what an optimizer does, with which parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from htbench import models as zoo_of_models
from htbench.harness import tasks as zoo_of_tasks
from htbench.harness.config import groups
from htbench.harness.config.yaml_text import read_words
from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import setting, write_shape
from htbench.harness.show.progress import Progress
from htbench.harness.show.report import Column, Report, Section, by_columns, table
from htbench.optimizers.zoo.registry import ZOO, Param, spec
from htbench.optimizers.zoo.spec import OptimizerSpec

if TYPE_CHECKING:
    from torch import Tensor

    from htbench.harness.bench.measured import Measured
    from htbench.optimizers.reach import Treatment

_HYPERPARAMETERS = (
    Column("name", kind="text"),
    Column("default", kind="text"),
    Column("help", kind="text", least=16),
)
_SAME = ("name", "family", "fixed", "has_aux", "state", "vectors", "paper", "url", "revision")


@dataclass(frozen=True)
class ParamFacts:
    """A hyperparameter.

    Attributes:
        type: its type.
        default: its default.
        allowed: which values it may have.
        help: what it is.
    """

    type: str
    default: Any
    allowed: str
    help: str


@dataclass(frozen=True)
class OptimizerFacts:
    """An optimizer.

    Attributes:
        name, family: of the optimizer.
        lr, weight_decay: two hyperparameters that all have.
        hyper: each of the others.
        fixed: arguments of its class that it pins.
        has_aux: whether other parameters go to an auxiliary AdamW.
        state: tensors kept for a parameter.
        vectors: what happens to vectors.
        paper, url: where it is described.
        revision: of its code.
    """

    name: str
    family: str
    lr: ParamFacts
    weight_decay: ParamFacts
    hyper: Mapping[str, ParamFacts]
    fixed: Mapping[str, Any]
    has_aux: bool
    state: str
    vectors: str
    paper: str
    url: str
    revision: int


def zoo(name: str | None = None) -> Report:
    """Every optimizer with its defaults, or one with all its hyperparameters.

    Raises:
        UsageError: there is no such optimizer.
    """
    specs = list(ZOO.values()) if name is None else [_read_row(name)]
    facts = [
        OptimizerFacts(
            lr=_param(row.lr),
            weight_decay=_param(row.weight_decay),
            hyper={name: _param(param) for name, param in row.params.items()},
            **{name: getattr(row, name) for name in _SAME},
        )
        for row in specs
    ]
    if name is not None:
        [row] = facts
        params = {"lr": row.lr, "weight_decay": row.weight_decay, **row.hyper}
        lines = [(name, setting(p.default), p.help) for name, p in params.items()]
        about = Note("zoo_optimizer", state=row.state, vectors=row.vectors, paper=row.paper, url=row.url)
        return Report("zoo", "", [table(_HYPERPARAMETERS, lines, notes=[about])], data=facts)
    columns = {
        Column("name", kind="text"): [row.name for row in facts],
        Column("family", kind="text", least=8, importance=4): [row.family for row in facts],
        Column("lr", kind="text", importance=8): [setting(row.lr.default) for row in facts],
        Column("weight_decay", kind="text", importance=7): [
            setting(row.weight_decay.default) for row in facts
        ],
        Column("vectors", kind="text", least=12, importance=3): [row.vectors for row in facts],
    }
    notes = [Note("zoo_columns"), Note("zoo_more")]
    return Report("zoo", "", [by_columns(columns, notes=notes)], data=facts)


def _read_row(name: str) -> OptimizerSpec:
    try:
        return spec(name)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _param(param: Param) -> ParamFacts:
    return ParamFacts(param.type.__name__, param.default, param.allowed(), param.help)


@dataclass(frozen=True, kw_only=True)
class ModelFacts(zoo_of_models.ModelSpec):
    """A model.

    Attributes:
        parameters: trainable ones.
    """

    parameters: int


def sizes() -> Report:
    """Every model with its exact number of trainable parameters, counted with its own settings."""
    count = zoo_of_models.count_parameters
    facts = [ModelFacts(**vars(row), parameters=count(row.name)) for row in zoo_of_models.SIZES.values()]
    settings = [row.settings for row in facts]
    columns: dict[Column, list[Any]] = {
        Column("name", kind="text"): [row.name for row in facts],
        Column("kind", kind="text", importance=7): [row.kind for row in facts],
        Column("parameters", unit="digits", importance=8): [row.parameters for row in facts],
        Column("width", importance=6): [own.get("hidden", own.get("width")) for own in settings],
        Column("layers", kind="text", importance=6): [
            own.get("layers", own.get("blocks")) for own in settings
        ],
        Column("outputs", importance=6): [own.get("vocabulary", own.get("classes")) for own in settings],
    }
    return Report("models", "", [by_columns(columns, notes=[Note("models_more")])], data=facts)


@dataclass(frozen=True)
class TaskFacts:
    """A task.

    Attributes:
        name: of the task.
        kind: "lm" or "image".
        about: its data in a few words.
        metric: that tables report.
        higher_is_better: whether more of it is better.
        seq_len: tokens of a sequence, unless the run says otherwise; None: of images.
        prepare: the command that fetches and prepares the data; None: they come with the installation.
    """

    name: str
    kind: str
    about: str
    metric: str
    higher_is_better: bool
    seq_len: int | None
    prepare: str | None


def tasks() -> Report:
    """Every task with its data, its metric and where the data are from."""
    same = ("name", "kind", "about", "metric", "higher_is_better", "seq_len")
    facts = [
        TaskFacts(
            **{name: getattr(row, name) for name in same},
            prepare=f"htbench data prepare {row.name}" if row.ready else None,
        )
        for row in zoo_of_tasks.TASKS.values()
    ]
    columns: dict[Column, list[Any]] = {
        Column("name", kind="text"): [row.name for row in facts],
        Column("data", kind="text"): [row.about for row in facts],
        Column("metric", kind="text"): [
            zoo_of_tasks.metric_label(row.metric, row.higher_is_better) for row in facts
        ],
        Column("seq_len", kind="text"): [row.seq_len for row in facts],
        Column("place", kind="text"): ["to fetch" if row.prepare else "embedded" for row in facts],
    }
    return Report("tasks", "", [by_columns(columns, notes=[Note("tasks_to_fetch")])], data=facts)


# --- one optimizer ---

_MEASURED = (Column("fact", "measured on a matrix of 64 x 32", "text"), Column("value", "", digits=3))
_ROUTING = (
    Column("parameter", kind="text"),
    Column("shape", kind="text", importance=6),
    Column("rule", kind="text", least=12, importance=8),
    Column("lr", kind="text", importance=4),
    Column("weight_decay", kind="text", importance=5),
)


@dataclass(frozen=True)
class Routed:
    """What happens to a parameter of a model.

    Attributes:
        parameter: its name.
        shape: its sizes.
        rule: what steps it.
        lr, weight_decay: its own.
    """

    parameter: str
    shape: list[int]
    rule: str
    lr: float
    weight_decay: float


def check(name: str, settings: Mapping[str, str]) -> Report:
    """What is wrong with an optimizer by each property of the contract, and how it moves weights.

    Returns:
        the report. Its `data` has what is wrong by the property, empty if it holds, and `measured`.

    Raises:
        UsageError: there is no such optimizer, or it can't be built with these settings.
    """
    _read_row(name)
    from htbench.harness.bench import contract  # imports torch

    try:
        build = contract.builder(name, build_settings(settings))
    except ValueError as error:
        raise UsageError(f"{error}; arguments follow the name as key=value.") from None
    wrong = {}
    with Progress(len(contract.PROPERTIES) + 2, "properties") as progress:
        for word, reason in contract.check(build):
            wrong[word] = reason
            progress.advance()
        wrong["trains"] = contract.trains(name, settings)
        progress.advance()
        facts = measure(name, settings)
        progress.advance()
    names_by_reason = dict[str, list[str]]()  # what is wrong in one way stands together
    for word, reason in wrong.items():
        names_by_reason.setdefault(reason, []).append(str(Note(f"property_{word}")))
    held = names_by_reason.pop("", [])
    above = [Note("check_wrong", names=names, why=why) for why, names in names_by_reason.items()]
    above += [Note("check_holds", names=held)] if held else []
    faults = len(wrong) - len(held)
    title = Note("check_fails" if faults else "check_passes", name=name, faults=faults, properties=len(wrong))
    sections = [table((), (), above=above, notes=facts.misleading()), *_show(facts)]
    return Report("check", str(title), sections, data={**wrong, "measured": facts})


def list_faults(report: Report) -> dict[str, str]:
    """What is wrong by the report of `check`: the properties that do not hold, with the reason."""
    return {name: why for name, why in report.data.items() if name != "measured" and why}


def measure(name: str, settings: Mapping[str, str]) -> Measured:
    """How far an optimizer moves weights of several shapes, and what else a rate from elsewhere depends on.

    Raises:
        ValueError: it can't be built with these settings.
    """
    from htbench.harness.bench import contract, measured  # imports torch

    own, row = build_settings(settings), spec(name)
    build = contract.builder(name, own)
    if row.outside and "routing" not in own:
        build = partial(build, routing="released")  # vectors, too, are for the class
    return measured.measure_optimizer(build, row.has_weight_decay)


def _show(facts: Measured) -> list[Section]:
    moved = facts.movements
    left = [f"{one.gradient_left:.2g}" if one.gradient_left is not None else "none" for one in moved]
    columns: dict[Column, list[Any]] = {
        Column("shape", "RMS of the update / lr", "text"): [write_shape(one.shape) for one in moved],
        Column("first", "step 1", unit="4"): [one.first for one in moved],
        Column("second", "step 2", unit="4"): [one.second for one in moved],
        Column("tenth", "step 10", unit="4"): [one.tenth for one in moved],
        Column("scheduled", "at lr / 2", digits=2): [one.scheduled for one in moved],
        Column("gradient_left", "p.grad left", "text"): [
            "" if one.refused else word for one, word in zip(moved, left, strict=True)
        ],
        Column("rule", kind="text", least=12, importance=4): [one.refused or one.rule for one in moved],
    }
    decay = facts.decay
    values = {
        "memory": facts.memory,
        "momentum": facts.momentum and facts.momentum.gives,
        "idle": decay and decay.idle,
        "busy": decay and decay.busy,
        "exponent": facts.exponent,
    }
    beside = [
        (str(Note(f"fact_{name}", kind=decay and decay.kind)), value)
        for name, value in values.items()
        if value is not None
    ]
    return [by_columns(columns), table(_MEASURED, beside)]


def build_settings(words: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `optimizers.build`, those of named groups in `groups`."""
    settings: dict[str, Any] = {}
    for key, value in words.items():
        word = key.removeprefix("optimizer.")
        if of_group := groups.parse(f"optimizer.{word}"):
            settings.setdefault("groups", {}).setdefault(of_group[0], {})[of_group[1]] = value
        else:
            settings[word] = value
    return settings


def routing(words: Sequence[str]) -> tuple[Report, str]:
    """The rule of each parameter, for `MODEL OPTIMIZER [key=value ...]`; nothing is allocated.

    A key is an argument of `optimizers.build`.

    Returns:
        the report, and what a run would say of an optimizer that reaches little (`optimizers.reach`).

    Raises:
        UsageError: fewer than two words, an unknown model or optimizer, or a bad hyperparameter.
    """
    if len(words) < 2:
        raise UsageError(
            f"--routing takes a model and an optimizer, such as 'llama-60m muon', not '{words[0]}'."
        )
    import torch

    from htbench import optimizers
    from htbench.optimizers.reach import little_reach, treatments

    try:
        with torch.device("meta"):
            model = zoo_of_models.build(words[0])
            optimizer = optimizers.build(words[1], model, **build_settings(read_words(words[2:])))
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    how = treatments(optimizer)
    of = {p: group for group in optimizer.param_groups for p in group["params"]}
    facts, rows = [], []
    for name, p in model.named_parameters():
        rule, lr, decay = _rule(how[p], of[p], p), of[p]["lr"], of[p].get("weight_decay", 0.0)
        facts.append(Routed(name, list(p.shape), rule, lr, decay))
        rows.append((name, write_shape(p.shape), rule, setting(lr), setting(decay)))
    numbers = sorted(Counter(how[p].rule for p in model.parameters()).items())
    note = Note("zoo_routed", parameters=len(rows), rules=[f"{n} by {rule}" for rule, n in numbers])
    report = Report("routing", str(note), [table(_ROUTING, rows)], data=facts)
    return report, str(little_reach(words[1], optimizer) or "")


def _rule(how: Treatment, group: Mapping[str, Any], p: Tensor) -> str:
    """The class, and what of the group or the shape makes it treat this parameter in a way of its own."""
    if group.get("blocks", 1) > 1:
        return f"{how}, {group['blocks']} blocks"
    if p.ndim > 2 and "spectral" in group:
        return f"{how}, as {len(p)} x {p.numel() // len(p)}"
    return str(how)
