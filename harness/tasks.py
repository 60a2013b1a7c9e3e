"""The table of tasks, readable without torch.

A row names three functions. Two of them fingerprint and count the data quickly; one loads the task and needs
torch. A user's own task is a `TaskSpec` in a module of theirs, named as "module:NAME".
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from htbench.harness.errors import UsageError, nearest
from htbench.imported import load, target

GROUP: Final = "htbench.tasks"  # of entry points
ACCURACY: Final = "accuracy"  # a share, which people read in percent
_DATA: Final = "htbench.harness.data."
UNKNOWN: Final = "unknown"  # the metric of a task that nothing describes

# The settings of a run that only some tasks take, each with the values that mean nothing to the others.
OPTIONS: Final[Mapping[str, tuple[Any, ...]]] = {
    "protocol": ("honest",),
    "layout": (None,),
    "held_out_tokens": (None,),
    "augment": (None, "none"),
    "mixup": (None, 0.0),
}


@dataclass(frozen=True)
class TaskSpec:
    """One row of `TASKS`.

    `fingerprint`, `loader` and `train_size` are "module:function". `adamw_lr` is the learning rate of AdamW
    on this task, also for the parameters that a matrix optimizer leaves to it. `revision` is raised when the
    same data gives other numbers.

    `takes` names the settings of OPTIONS that its functions take as keyword arguments besides, and `defaults`
    their values where a run leaves them empty. `ready` (cache, samples, seq_len, options) raises UsageError
    unless the data of so many training samples is prepared; a task without it prepares its data by itself.
    """

    name: str
    kind: str  # "lm" or "image", as in models.ModelSpec, or a word of your own
    metric: str  # the reported entry of Task.evaluate, such as "perplexity" or "accuracy"
    higher_is_better: bool
    fingerprint: str
    loader: str
    adamw_lr: float
    seq_len: int | None = None  # tokens per sequence unless the run says otherwise
    revision: int = 1
    train_size: str = ""  # empty: a batch larger than the data is an error at the start of the run only
    takes: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    ready: str = ""
    target: float | None = None  # validation metric that a published benchmark of the task races to
    classes: int | None = None  # among which a guess is right once; None: not known
    about: str = ""  # its data in a few words

    @property
    def unit(self) -> str:
        """What a batch has so many of: tokens, images or samples."""
        return {"lm": "tokens", "image": "images"}.get(self.kind, "samples")


def _row(name: str, place: str, kind: str, metric: str, higher_is_better: bool, **more: Any) -> TaskSpec:
    """A row whose functions stand in a module of data, "module:", or belong to a dataset, "module:NAME."."""
    functions = {"fingerprint": "fingerprint", "loader": "load", "train_size": "train_size"}
    places: Any = {field: f"{_DATA}{place}{function}" for field, function in functions.items()}
    return TaskSpec(name, kind, metric, higher_is_better, **places, **more)


def _text(name: str, place: str, **more: Any) -> TaskSpec:
    return _row(name, place, "lm", "perplexity", False, **more)


def _python(name: str, **more: Any) -> TaskSpec:
    """Text that Python ships."""
    return _text(name, f"{name}:", adamw_lr=4e-3, takes=("protocol", "held_out_tokens"), **more)


def _images(name: str, place: str, **more: Any) -> TaskSpec:
    return _row(name, place, "image", ACCURACY, True, **more)


def _pictures(name: str, place: str, augment: str, mixup: float = 0.0, **more: Any) -> TaskSpec:
    """Images in the layout of `harness/data/stamps.py`."""
    defaults = {"augment": augment, "mixup": mixup}
    return _images(name, place, takes=("protocol", *defaults), defaults=defaults, **more)


def _photographs(name: str, place: str, augment: str, mixup: float = 0.0, **more: Any) -> TaskSpec:
    return _pictures(name, place, augment, mixup, adamw_lr=1e-3, ready=f"{_DATA}{place}ready", **more)


def _corpus(name: str, place: str, layout: str, held_out: int = 10_000_000, **more: Any) -> TaskSpec:
    defaults = {"layout": layout, "held_out_tokens": held_out}
    takes = ("protocol", *defaults)
    return _text(name, place, takes=takes, defaults=defaults, ready=f"{_DATA}{place}ready", **more)


_ROWS = (
    _python("pydocs", seq_len=32, about="documentation of Python"),
    _python("pysource", seq_len=64, about="sources of Python"),
    _corpus("c4", "corpus:C4.", "padded", adamw_lr=1e-3, seq_len=256, about="web pages (C4, en)"),
    _corpus(
        "openwebtext",
        "corpus:OPENWEBTEXT.",
        "packed",
        adamw_lr=6e-4,
        seq_len=1024,
        about="web pages (OpenWebText)",
    ),
    _corpus(
        "fineweb",
        "corpus:FINEWEB.",
        "packed",
        held_out=10_485_760,
        adamw_lr=1.5e-3,
        seq_len=1024,
        target=math.exp(3.28),
        about="web pages (FineWeb, 10B)",
    ),
    _images(
        "digits", "digits:", adamw_lr=3e-2, takes=("protocol",), classes=10, about="handwritten digits, 8 x 8"
    ),
    _pictures("glyphs", "glyphs:", "none", adamw_lr=1e-2, classes=100, about="characters of fonts, 16 x 16"),
    _photographs("cifar10", "pictures:CIFAR10.", "crop-flip", classes=10, about="photographs, 32 x 32"),
    _photographs("cifar100", "pictures:CIFAR100.", "crop-flip", classes=100, about="photographs, 32 x 32"),
    _photographs(
        "imagenet-1k",
        "pictures:IMAGENET.",
        "randaugment",
        mixup=0.2,
        classes=1000,
        about="photographs, 256 x 256",
    ),
)

TASKS: dict[str, TaskSpec] = {row.name: row for row in _ROWS}


def spec(name: str) -> TaskSpec:
    """The row called `name`, or the `TaskSpec` that "module:NAME" or an entry point of `htbench.tasks` names.

    Raises:
        ValueError: there is none, and the message names the nearest one; or it is no `TaskSpec`, or is not
            allowed (`harness/config/parts.py`).
    """
    row = TASKS.get(name) or _outside(name)
    if row is None:
        raise ValueError(f"unknown task {name!r}; {nearest(name, TASKS)}")
    return row


@functools.cache
def _outside(name: str) -> TaskSpec | None:
    place = target(name, GROUP)
    if place is None:
        return None
    row = load(place)
    if not isinstance(row, TaskSpec):
        raise ValueError(f"'{name}' must be an instance of harness.tasks.TaskSpec, not {row!r}")
    return replace(row, name=name)


# --- tasks that can't be imported any more ---


def described(row: TaskSpec) -> dict[str, Any]:
    """What a record notes of a user's task, so that tables need no module of theirs; empty for our tasks."""
    if row.name in TASKS:
        return {}
    return {"task": {"kind": row.kind, "metric": row.metric, "higher_is_better": row.higher_is_better}}


def recorded(name: str, environment: Mapping[str, Any]) -> TaskSpec:
    """The row of a finished run's task: of our table, or as its record describes it. Nothing is imported.

    Args:
        name: of the task.
        environment: of the record; without a description the kind is empty and the metric UNKNOWN.
    """
    noted = environment.get("task")
    facts = noted if isinstance(noted, Mapping) else {}
    if name in TASKS and facts.get("kind") != "program":  # whose word for its task may be a name of ours
        return TASKS[name]
    kind, metric, higher = (facts.get(field) for field in ("kind", "metric", "higher_is_better"))
    if not (isinstance(kind, str) and isinstance(metric, str) and isinstance(higher, bool)):
        kind, metric, higher = "", UNKNOWN, False
    return TaskSpec(name, kind, metric, higher, fingerprint="", loader="", adamw_lr=0.0)


# --- metrics, as people read them ---


def metric_label(metric: str, higher_is_better: bool) -> str:
    """A metric with its unit and its direction: `accuracy % ↑`."""
    return f"{metric}{' %' if metric == ACCURACY else ''} {'↑' if higher_is_better else '↓'}"


def metric_text(metric: str, value: float) -> str:
    """A value of a metric in that unit."""
    return f"{100 * value:.1f}" if metric == ACCURACY else f"{value:.4g}"


def metric_figure(metric: str, value: float) -> str:
    """A value with its metric: `accuracy 97.7 %`."""
    return f"{metric} {metric_text(metric, value)}{' %' if metric == ACCURACY else ''}"


# --- data ---


def fingerprint(name: str) -> str:
    """Hex digest of the task's raw data and of its preparation. Raises UsageError if data is missing."""
    row = spec(name)
    try:
        fingerprinting: Any = load(row.fingerprint)
        return str(fingerprinting())
    except (UsageError, OSError):
        raise
    except Exception as error:
        if name in TASKS:
            raise
        raise UsageError(
            f"The fingerprint of the task '{name}' fails with {type(error).__name__}: {error}"
        ) from None


def options(name: str, settings: object) -> dict[str, Any]:
    """The settings that the task takes besides, as attributes of `settings`, with its own for empty ones."""
    row = spec(name)
    given = {option: getattr(settings, option) for option in row.takes}
    return {key: row.defaults.get(key) if value is None else value for key, value in given.items()}


def check_ready(name: str, cache: Path, samples: int | None, seq_len: int | None, **options: Any) -> None:
    """Raise UsageError, with the command to run, if prepared data is missing. Torch-free and quick.

    Args:
        name: of the task.
        cache: folder for prepared data, which is only read.
        samples: that a run trains on, in all of its steps; None: whole epochs.
        seq_len: tokens per sequence; None means the row's.
        options: as `options` makes them.
    """
    row = spec(name)
    if row.ready:
        checking: Any = load(row.ready)
        checking(cache, samples, seq_len or row.seq_len, **{**row.defaults, **options})


def train_size(name: str, cache: Path, seq_len: int | None = None, **options: Any) -> int | None:
    """The number of training samples, or a bound above it where data is not prepared yet. Torch-free, quick.

    None if the row names no such function.

    Args:
        name: a row of `TASKS`.
        cache: folder for prepared data, which is only read.
        seq_len: tokens per sequence; None means the row's.
        options: as `options` makes them.
    """
    row = spec(name)
    if not row.train_size:
        return None
    counting: Any = load(row.train_size)
    return int(counting(cache, seq_len or row.seq_len, **{**row.defaults, **options}))


def build(
    name: str, *, cache: Path, batch_size: int, seq_len: int | None = None, data_seed: int, **options: Any
) -> Any:  # a `harness.data.task.Task`, which needs torch
    """The task, ready to train on.

    Args:
        name: a row of `TASKS`, or a task from outside.
        cache: folder for prepared data; made if missing, filled on the first call.
        batch_size: samples of a global batch.
        seq_len: tokens per sequence; None means the row's. Images have none.
        data_seed: seed of the order of the training samples.
        options: as `options` makes them; the row's and the loader's defaults stand for missing ones.

    Raises ValueError for an unknown name, UsageError if the data is missing.
    """
    row = spec(name)
    seq_len = row.seq_len if seq_len is None else seq_len
    loader: Any = load(row.loader)
    given = {"batch_size": batch_size, "seq_len": seq_len, "data_seed": data_seed}
    return loader(cache, **given, **{**row.defaults, **options})


def load_for(row: TaskSpec, config: Any, cache: Path) -> Any:  # a `harness.data.task.Task`
    """The task of a run, ready to train on.

    Args:
        row: of the task.
        config: a resolved `RunConfig`.
        cache: as in `build`.

    Raises:
        UsageError: its data is missing, not what the config was made for, or less than a batch.
    """
    now = fingerprint(row.name)
    if config.data_fingerprint != now:
        raise UsageError(
            f"The data of '{row.name}' has changed since the run was planned "
            f"(fingerprint {config.data_fingerprint}, now {now}); plan the sweep anew."
        )
    given = {name: getattr(config, name) for name in ("batch_size", "seq_len", "data_seed")}
    task = build(row.name, cache=cache, **given, **options(row.name, config))
    if config.batch_size > task.epoch_size:
        raise UsageError(
            f"batch_size={config.batch_size} is more than the {task.epoch_size} training samples "
            f"of '{row.name}'."
        )
    return task
