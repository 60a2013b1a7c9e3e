"""Writes the config reference, `docs/config.md`, from the declarations themselves, never out of date.

`python -m docs.config_page` prints it, with `--write` it goes into the file; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness import tasks
from harness.config import hyper_schedules
from harness.config.settings import declarations, params_of
from harness.show.numbers import setting as shown
from optimizers.zoo.registry import UNSET, ZOO, OptimizerSpec, Param

PLACE = Path(__file__).with_name("config.md")

# Heading -> key -> meaning. `sweeps/spec/sweep_file.py` reads these; a test holds the two together.
SWEEP_KEYS = {
    "Keys of the file": {
        "name": "the sweep's folder in the store and its word in tables; default: the file's name",
        "base": "settings of every point",
        "seeds": "list of seeds of the initial weights; every point runs on each (default: `base.seed`)",
        "space": "axes of every block, see below",
        "blocks": "list of parts of the grid, usually one per optimizer; default: one block",
        "exclude": "list of mappings; a point that agrees with all settings of one of them is left out",
        "search": "how points are found, see below; default: `{mode: grid}`",
        "replicate": "`{seeds: 3}`: run each winner again on so many fresh seeds; tables report those. The "
        "first is 1000, or above `seeds` if that is more: sweeps share them, no search should use them",
        "resources": "what a job may use on a SLURM cluster, see below",
    },
    "Keys of a block": {
        "name": "the block's word in plans and studies; default: `optimizer.name`",
        "set": "settings of every point of this block, over those of `base`",
        "space": "axes of this block, over the common ones",
        "resources": "of this block's jobs, over those of the sweep",
    },
    "Keys of resources": {
        "timeout_min": "time limit of a job; where it ends, the run is saved and queued again (default: 60)",
        "runs_per_job": "runs of a job, side by side and one after another on one node (default: 1)",
        "runs_per_gpu": "runs that share a GPU of such a job at the same time (default: 1)",
        "runs_at_once": "runs side by side in such a job without GPUs (default: 1)",
        "gpus_per_node": "GPUs of a job on each node, one for each of its processes there; with "
        "`runs_per_job` those of all its runs together (default: 0)",
        "nodes": "over which the processes of a run are spread evenly (default: 1)",
        "cpus_per_task": "cores of each process (default: 1)",
        "mem": "memory of a job on each node, such as `16G`; default: the site's",
        "array_parallelism": "jobs of one array that run at a time (default: 256)",
        "submit_limit": "most jobs of yours that may be in the queue; later calls submit the rest",
        "signal_delay_s": "seconds before the limit at which a run is told to save; default: a tenth, "
        "at most 120",
        "account": "of `sbatch`",
        "partition": "of `sbatch`",
        "qos": "of `sbatch`",
        "constraint": "of `sbatch`",
        "exclude": "nodes not to use",
        "mail_type": "when to write mail, such as `FAIL`",
        "mail_user": "to whom",
        "setup": "list of shell lines that come before the job, such as `module load cuda`",
        "python": "interpreter of a job, an absolute path or a name on its PATH; default: that of the "
        "submitter, in a container `python3`",
        "srun_args": "list of words for `srun` beside ours, such as `--container-image=...` of pyxis",
        "container": "image that `apptainer exec` runs the job in, an absolute path or a URI",
    },
    "Keys of a range": {
        "low": "first value",
        "high": "last value",
        "num": "number of values; only a grid needs it",
        "log": "`true`: equal ratios instead of equal differences (default: `false`)",
    },
    "Keys of `search`": {
        "mode": "`grid`: every point; `tpe`: tree-structured Parzen estimator, trials under way counted as "
        "bad (constant liar); `random`; `sobol`: a scrambled Sobol sequence",
        "trials": "trials of each block, the same for all",
        "seed": "of the draws (default: 0)",
        "pruner": "`{asha: {}}` or `{median: {}}` with its options; default: every trial runs to its end",
        "storage": "URL of a database; default: a journal file per study in the store",
    },
    "Options of the pruner `asha`": {
        "min_resource": "steps before the first decision (default: `evaluation.every`); the next comes after "
        "`reduction_factor` times as many, and so on",
        "reduction_factor": "of this many that have come so far, one goes on (default: 3)",
    },
    "Options of the pruner `median`": {
        "startup_trials": "that run to their end in any case (default: 5)",
        "warmup_steps": "steps of each trial before the first decision (default: 0)",
    },
}

_HEAD = """\
# Config reference

Generated by `python -m docs.config_page --write` from `harness/config/{schema,groups}.py`,
`optimizers/zoo/registry.py` and `harness/tasks.py`. Don't edit it.

A setting is given in a YAML file (`optimizer: {lr: 0.01}` or `optimizer.lr: 0.01`), on the command line
(`optimizer.lr=0.01`), or in a sweep file. Unknown names and values out of range end the command with exit
status 2.

**Key**: whether the setting decides which run it is. Two configs that agree in all with "yes" are one run,
trained once. Of the settings with "no", `threads`, `processes`, `micro_batch`, `device` and `compile` change
the last digits: tables name them and mark what mixes them. The others change no numbers. Defaults are written
in before the key is computed, and a setting that changes nothing beside the others (`schedule.decay` of a
cosine) counts as its default."""

_AFTER_SETTINGS = """\
Learning rates and weight decay also have the range of the chosen optimizer, see below. `micro_batch` and
`processes` are in the key for models with BatchNorm (`resnet*`), whose statistics depend on how a batch is
split, and for models from outside, unless the class or function has an attribute `batch_norm = False`; with
`kind = "image"` or `"lm"` it is refused on other tasks. `micro_batch` must divide the part of a process,
`batch_size / processes`.
`data_fingerprint` is filled in from the data found on this machine, and so are `revisions`: parts of the code
that have a revision above 1, that somebody has edited, or that come from outside.

`optimizer.NAME` with another NAME is a hyperparameter of the chosen optimizer; all of them are in the key."""

_BEFORE_SCHEDULES = """\
Any hyperparameter of the rule that may be a fraction, `weight_decay` and `momentum` too, can change over the
run: `schedule.p: {name: linear, from: 0.25, to: 0}` in a file, `schedule.p.to=0` on the command line,
`schedule.p.to: [0, 0.125]` as an axis. It is set before every step, t counts the steps already made and T is
the length of the run. The parts below are in the key; a part that the shape has not changes nothing."""

_AFTER_SCHEDULES = """\
Without `from` it starts at `optimizer.p`, or its default; if both are given, they must agree. `from` and `to`
have the range of the hyperparameter. The auxiliary AdamW follows no schedule but that of the learning rate: a
schedule of `weight_decay` leaves it at `optimizer.aux_weight_decay`, or at `from` if that is empty. Groups
with a weight decay of their own (`no_decay_1d`) keep it, too. A class from outside must read the
hyperparameter from its parameter groups at each step."""

_AFTER_ZOO = """\
**state**: the tensors kept for a parameter, each as large as it unless said. **vectors**: what happens to
parameters of one dimension (gains, biases). Learning rate and weight decay are defaults, those of the paper's
tables. `htbench zoo --routing MODEL OPTIMIZER [key=value ...]` shows the rule of every parameter of a model,
`htbench bench optimizers` what a step costs.

An optimizer from outside (`module:Class`) has the hyperparameters of its constructor. A value must have the
type of the default. Where that is a whole number, the annotation decides (`int` or `float`); without one, any
number will do. Where the default is `null` or missing, any plain value will do. What takes no plain value (a
function, `**kwargs`) keeps its default. A class without a default for `lr` gets 0.001. `routing` and `aux_lr`
change nothing for it."""

_AFTER_SEARCH = """\
In a search, axes of `optimizer.*`, `schedule.*` and `grad_clip` are searched: a range between its ends, a
list as choices. Each combination of the other axes is a search of its own. Every trial trains on the one
seed of `seeds`. A pruner looks at evaluations, so it needs `evaluation.every` in `base`. More `trials` go
on with the studies that there are; any other change begins new ones. A `storage` of
`postgresql://USER@HOST/NAME` needs `pip install 'htbench[postgres]'`, and takes the password from
`~/.pgpass`. One in the file is refused: what stands in the file also stands in the store. `storage:
${oc.env:NAME}`, or `...//USER:${oc.env:NAME}@HOST/...`, is resolved only by the process that connects, a
job in its own environment; the store keeps these words. Anything else that `${oc.env:NAME}` stands for in
a sweep file is a setting like any other, and is stored: no secrets there. In `setup` it is refused; write
`$NAME`. SQLite is refused, since it hands one trial to several workers.

Stores may share a database: the names of a store's studies there end in the nonce of its `store.json`,
which `htbench runs import` does not copy. `cp -r` of a whole store does; remove the file in one of the
two before both go on with a search, and its studies are made again from its runs. The replicas of winners
are journal files in any case."""

_AFTER_SWEEP = """\
An axis is a list of values (`optimizer.lr: [0.01, 0.02]`) or a range
(`optimizer.lr: {low: 0.001, high: 0.1, log: true, num: 5}`, rounded to four digits). The axes of a block are
multiplied out in a grid. Values of `optimizer.*`, `schedule.*` and `grad_clip` compete; every other axis
(task, model, steps ...) splits the sweep into objectives with a winner each. Seeds are no axis.

Words of the form `key=value` after the file on the command line override its `base`; `name=...` gives the
sweep another name. The copy in the store has these words in it, so that the name of a stored sweep means what
was planned."""


def render() -> str:
    """The whole page, as Markdown."""
    parts = [_HEAD, "## Settings of a run", _settings(), _AFTER_SETTINGS]
    parts += ["### Schedules of hyperparameters", _BEFORE_SCHEDULES, _schedules(), _AFTER_SCHEDULES]
    parts += ["## The zoo", _zoo(), _AFTER_ZOO]
    parts.append("## Hyperparameters")
    for row in ZOO.values():
        parts += [f"### {row.name}", _source(row), _hyperparameters(row)]
    parts += ["## Tasks", _tasks(), "## Sweep files"]
    for heading, keys in SWEEP_KEYS.items():
        rows = ((f"`{key}`", meaning) for key, meaning in keys.items())
        parts += [f"### {heading}", _table(("key", "meaning"), rows)]
    parts += ["### Axes", _AFTER_SWEEP, "### Search", _AFTER_SEARCH]
    return "\n\n".join(parts) + "\n"


def _settings() -> str:
    rows = []
    for name, field in declarations():
        param, in_key = field.metadata["param"], "yes" if field.metadata["key"] else "no"
        rows.append((*_cells(name, param), in_key, param.help))
    return _table(("setting", "type", "default", "allowed", "key", "meaning"), rows)


def _schedules() -> str:
    shapes = hyper_schedules.SHAPES
    rows = [
        ("`schedule.p.name`", "all", "none", ", ".join(shapes)),
        ("`schedule.p.from`", "all", "`optimizer.p`", "the value at first"),
        ("`schedule.p.to`", "all", "none", "the value at last"),
    ]
    for part, param in {part: param for parts in shapes.values() for part, param in parts.items()}.items():
        having = ", ".join(name for name, parts in shapes.items() if part in parts)
        default = "none" if param.default is UNSET else f"`{shown(param.default)}`"
        rows.append((f"`schedule.p.{part}`", having, default, param.help))
    return _table(("setting", "of", "default", "meaning"), rows)


def _zoo() -> str:
    rows = (
        (
            f"[{row.name}](#{row.name})",
            row.family,
            shown(row.lr.default),
            shown(row.weight_decay.default),
            row.state,
            row.vectors,
            f"[{row.paper}]({row.url})",
        )
        for row in ZOO.values()
    )
    return _table(("optimizer", "family", "lr", "weight decay", "state", "vectors", "paper"), rows)


def _hyperparameters(row: OptimizerSpec) -> str:
    own = [f"optimizer.{name}" for name in ("lr", "weight_decay", *row.params)]
    params = params_of(row)
    rows = ((*_cells(name, params[name]), params[name].help) for name in own)
    return _table(("setting", "type", "default", "allowed", "meaning"), rows)


def _source(row: OptimizerSpec) -> str:
    fixed = ", ".join(f"`{name}={shown(value)}`" for name, value in row.fixed.items())
    rest = "What the rule does not take goes to an auxiliary AdamW (`optimizer.aux_lr`, `aux_*`)."
    sentences = [f"[{row.paper}]({row.url}). Family: {row.family}."]
    sentences += [f"Fixed: {fixed}."] if fixed else []
    return " ".join(sentences + ([rest] if row.has_aux else []))


def _tasks() -> str:
    rows = (
        (
            f"`{row.name}`",
            {"lm": "language modelling", "image": "image classification"}[row.kind],
            f"{row.metric}, {'higher' if row.higher_is_better else 'lower'} is better",
            shown(row.adamw_lr),
            shown(row.seq_len),
        )
        for row in tasks.TASKS.values()
    )
    return _table(("task", "kind", "metric", "default `optimizer.aux_lr`", "default `seq_len`"), rows)


def _cells(name: str, param: Param) -> tuple[str, str, str, str]:
    kind = f"{param.type.__name__} or null" if param.default is None else param.type.__name__
    return f"`{name}`", kind, f"`{shown(param.default)}`" if param.default != "" else "empty", param.allowed()


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PLACE.write_text(render(), encoding="utf-8")
    else:
        print(render(), end="")
