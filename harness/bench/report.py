"""Measurements as text: aligned tables of at most 110 columns, and what their columns mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness import tasks
from harness.display import counted

if TYPE_CHECKING:
    from harness.bench.chunked import LossRow
    from harness.bench.maps import Error
    from harness.bench.measurement import Measurement
    from harness.bench.rows import PeerRow, Row
    from harness.bench.spectra import SpectraRow
    from harness.bench.train import TrainRow


def machine_in_words(machine: Mapping[str, Any]) -> str:
    """What `environment.describe_with_cpu_flags` gives, in two lines."""
    flags = machine["cpu_flags"] or {}
    words = "".join(f" {'+' if there else '-'}{flag}" for flag, there in flags.items())
    gpu = f"{machine['gpu']}, " if "gpu" in machine else ""
    native = {True: "yes", False: "no", None: "unknown"}[machine["native_bfloat16"]]
    device = f"{gpu}{machine['cpu']} ({machine['cpu_capability']}{words})"
    return f"{device}, torch {machine['torch']}\nnative bfloat16: {native}"


def warning(machine: Mapping[str, Any], in_bfloat16: bool) -> list[str]:
    """Lines for a machine on which a ratio between precisions says nothing about the algorithms."""
    if machine["native_bfloat16"] or not in_bfloat16:
        return []
    return [
        "WARNING: without it a product in bfloat16 costs us as much as one in float32, and others far more.",
        "A ratio of a side that iterates in bfloat16 to one that does not, or to another implementation that",
        "does, says nothing about a GPU or a CPU with avx512_bf16.",
    ]


def loop_report(about: Mapping[str, Any], rows: Sequence[Measurement]) -> str:
    """Of `htbench bench loop`; `about` is its JSON."""
    settings = about["settings"]
    tokens = f"{settings['batch_size']} x {tasks.spec(settings['task']).seq_len} tokens"
    environment = about["environment"]
    return "\n".join(
        [
            f"{settings['model']} on {settings['task']}, {tokens} per step, 1 thread",
            f"{environment['cpu']}, torch {environment['torch']}\n",
            loop_table(about["subject"], rows),
        ]
    )


def optimizers_report(about: Mapping[str, Any], rows: Sequence[Row], found: Sequence[PeerRow]) -> str:
    """Of `htbench bench optimizers`; `about` is its JSON."""
    overrides = "".join(f", {name} {value}" for name, value in about["overrides"].items())
    threads = counted(about["threads"], "thread")
    peaks = (f"{name} {rate / 1e9:.4g}" for name, rate in about["peak_flops_per_second"].items())
    lines = [
        f"{about['model']}{overrides}: {about['parameters']:,} parameters in {about['dtype']}, "
        f"{about['device']}, {threads}, {about['clock']}",
        machine_in_words(about["environment"]),
        *warning(about["environment"], any("bfloat16" in row.flops for row in rows)),
        f"peak of matrix products in GFLOP/s: {', '.join(peaks)}\n",
        rows_table(rows, about["against"]),
        "\nGFLOP: of matrix products in a step; SVD, QR and eigenvalues are not counted. peak: what these",
        "products take at the peak, in % of the step. calls: of PyTorch's operations, but no views.",
        "B/param: state. at most: for the interval's lower end.",
        *periods(rows),
    ]
    if any(row.name == "sophia" for row in rows):
        lines.append("sophia: without its curvature passes")
    if any(one.ratio is not None for one in found):
        lines += ["", peers_table(found), ""]
    if any(one.matrices and one.ratio is not None for one in found):
        lines.append("*: on the matrices alone")
    lines += [f"{one.label} beside {one.peer}: {one.note}" for one in found if one.note]
    return "\n".join(lines)


def maps_report(about: Mapping[str, Any], errors: Sequence[Error]) -> str:
    """Of `htbench bench maps`; `about` is its JSON."""
    (n, wide), run = about["shapes"]["wide"], about["captured"]
    lines = [
        f"distance to U S^p V^T from an SVD in float64, p = {about['p']:g}",
        f"{machine_in_words(about['environment'])}\n",
        f"{maps_table(errors, 'error')}\n\n{maps_table(errors, 'cosine')}\n",
        "error: relative, in the Frobenius norm; of newton_schulz that of its best multiple",
        f"matrices {n} x {n}; wide {n} x {wide}; k^-e: the spectrum; rank16: with noise of 0.3",
    ]
    if run["steps"]:
        lines.append(f"t: step of {run['model']} on {run['task']} with muon, median over its matrices")
    return "\n".join(lines)


def train_report(
    about: Mapping[str, Any],
    rows: Sequence[TrainRow],
    peaks: Mapping[str, tuple[int, int]],
    losses: Sequence[LossRow],
) -> str:
    """Of `htbench bench train`; `about` is the head of its JSON, `peaks` are bytes of both sides by model."""
    compiled = ", compiled" if about["compile"] else ""
    n, hidden, words = about["loss_shape"]
    lines = [
        f"{about['dtype']}{compiled}, {about['device']}, 1 CPU thread, {about['clock']}, "
        f"transformers {about['transformers']}",
        machine_in_words(about["environment"]),
        *warning(about["environment"], about["dtype"] != "float32"),
        "",
        train_table(rows, peaks),
        "",
        f"speed: transformers / ours, at least {about['least_speedup']:g}. peak: share of the best rate of "
        f"products, {rows[0].peak / 1e9:.4g} GFLOP/s.",
        "MiB: at most in use, in a process of its own. data: time to gather a batch, of a step; at most "
        f"{about['most_loading']:.0%}.",
        f"largest relative difference of the losses: {max(row.gap for row in rows):.1e}",
    ]
    if losses:
        lines += ["", f"loss of the head and its gradients, {n} tokens x {words} words, {hidden} wide"]
    lines += [
        f"{one.dtype}: chunked takes {one.ratio.median:.2f} ({_interval(one.ratio)}) of the plain one's time "
        f"and {_mebibytes(one.chunked_bytes)} MiB; plain {_mebibytes(one.plain_bytes)} MiB"
        for one in losses
    ]
    return "\n".join(lines)


def spectra_report(about: Mapping[str, Any], rows: Sequence[SpectraRow], peaks: Mapping[str, int]) -> str:
    """Of `htbench bench spectra`; `about` is the head of its JSON, `peaks` are bytes by method."""
    cells = [
        (row.include, str(row.layers), ratio.name, str(ratio.n), f"{ratio.median:.3f}", _interval(ratio))
        + (_target(ratio),)
        for row in rows
        for ratio in row.ratios
    ]
    head = ("set", "layers", "ratio", "n", "median", "95 % interval", "at most")
    largest = about["largest_bytes"]
    return "\n".join(
        [
            f"{about['model']}, 1 thread, {about['clock']}",
            machine_in_words(about["environment"]),
            "",
            _table([head, *cells], words=(0, 2, 6)),
            "",
            "floor: float64 Gram matrices of the smaller side and their eigenvalues alone, "
            + ", ".join(f"{_time(row.floor.median)} ms for {row.include}" for row in rows),
            *(
                f"peak memory with {method}: {_mebibytes(peak)} MiB above the weights, "
                f"{peak / largest:.2f} of the largest layer in float64 (at most {about['most_memory']:g})"
                for method, peak in peaks.items()
            ),
        ]
    )


def train_table(rows: Sequence[TrainRow], peaks: Mapping[str, tuple[int, int]]) -> str:
    """A line per model, ours beside that of `transformers`."""
    cells = [
        (
            row.work.model,
            f"{row.work.batch} x {row.work.settings['max_length']}",
            str(row.ours.n),
            _time(row.ours.median),
            _time(row.theirs.median),
            f"{row.speedup.median:.3f}",
            _interval(row.speedup),
            _three(row.tokens_per_second),
            f"{row.utilisation:.0%}",
            *(map(_mebibytes, peaks[row.work.model])),
            f"{row.loading:.1%}",
        )
        for row in rows
    ]
    times = ("model", "batch", "n", "ms/step", "theirs", "speed", "95 % interval")
    return _table([(*times, "tokens/s", "peak", "MiB", "theirs", "data"), *cells], words=(0,))


def loop_table(subject: str, rows: Iterable[Measurement]) -> str:
    """A line per measurement."""
    lines = [f"{subject:30} {'n':>4} {'median':>8}  {'95 % interval':^18}  {'unit':8} at most"]
    for row in rows:
        interval = f"{row.low:8.3f} ..{row.high:8.3f}"
        target = "" if row.target is None else f"{row.target:g}"
        line = f"{row.name:30} {row.n:4} {row.median:8.3f}  {interval:18}  {row.unit:8} {target}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def rows_table(rows: Sequence[Row], against: str) -> str:
    """Optimizers beside a baseline."""
    cells = [
        (
            row.label,
            str(row.step.n),
            _time(row.step.median),
            f"{row.ratio.median:.3f}",
            _interval(row.ratio),
            _three(sum(row.flops.values()) / 1e9),
            f"{row.share:.0%}",
            f"{row.calls:.0f}",
            f"{row.state_bytes:.2f}",
            _target(row.ratio),
        )
        for row in rows
    ]
    measured = ("optimizer", "n", "ms/step", f"x {against}", "95 % interval")
    return _table([(*measured, "GFLOP", "peak", "calls", "B/param", "at most"), *cells], words=(0, 9))


def periods(rows: Sequence[Row]) -> list[str]:
    """The times of the two kinds of steps of each periodic optimizer, a line each."""
    return [
        f"{row.label}: a mean over {row.period} steps, one of {_time(row.special)} ms "
        f"and the others of {_time(row.ordinary)} ms"
        for row in rows
        if row.special is not None and row.ordinary is not None
    ]


def peers_table(found: Sequence[PeerRow]) -> str:
    """Optimizers beside other implementations, as far as they were measured."""
    cells = [
        (
            one.label + (" *" if one.matrices else ""),
            one.peer,
            str(one.ratio.n),
            _time(one.ours.median),
            _time(one.theirs.median),
            f"{one.ratio.median:.3f}",
            _interval(one.ratio),
            _target(one.ratio),
        )
        for one in found
        if one.ours is not None and one.theirs is not None and one.ratio is not None
    ]
    header = ("optimizer", "beside", "n", "ms/step", "theirs", "ratio", "95 % interval", "at most")
    return _table([header, *cells], words=(0, 1, 7))


def maps_table(errors: Sequence[Error], value: str) -> str:
    """A line per map and a column per matrix; `value` is "error" or "cosine"."""
    columns = list(dict.fromkeys(one.matrix for one in errors))
    values: dict[tuple[str, str], float] = {(one.map, one.matrix): getattr(one, value) for one in errors}
    shown = _small if value == "error" else "{:.4f}".format
    cells = [
        (label, *(shown(values[label, column]) for column in columns))
        for label in dict.fromkeys(one.map for one in errors)
    ]
    return _table([(value, *columns), *cells], words=(0,))


def _table(rows: Sequence[Sequence[str]], words: Sequence[int]) -> str:
    """Columns as wide as their widest cell: those in `words` to the left, others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        lines.append("  ".join(f"{c:{'<' if i in words else '>'}{w}}" for i, (c, w) in enumerate(cells)))
    return "\n".join(line.rstrip() for line in lines)


# --- cells ---


def _target(ratio: Measurement) -> str:
    if ratio.target is None:
        return ""
    return f"{ratio.target:g} {'met' if ratio.low <= ratio.target else 'MISSED'}"


def _interval(row: Measurement) -> str:
    return f"{row.low:.3f} .. {row.high:.3f}"


def _time(milliseconds: float) -> str:
    return f"{milliseconds:.3f}" if milliseconds < 10 else f"{milliseconds:.1f}"


def _three(number: float) -> str:
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def _mebibytes(number: int) -> str:
    return f"{number / 2**20:.0f}"


def _small(number: float) -> str:
    return f"{number:.3f}" if number >= 1e-3 else f"{number:.1e}"
