"""The paper's tables: what the rows and columns of each are, what it selects over and what it fixes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """How the published numbers of one table are arranged. Fields are those of `results/tables/fields.py`.

    Attributes:
        title: what it shows.
        rows, columns: the fields that tell its rows and columns apart.
        sections: the fields that divide it into sections.
        selects: what is chosen, in words; empty if nothing is.
        fixes: what else is tuned elsewhere and fixed here, in words.
        axis: the field that the columns are steps of, if it is a grid.
        tuned_p: whether there is one more column: p chosen on validation together with the learning rate.
    """

    title: str
    rows: tuple[str, ...] = ("optimizer",)
    columns: tuple[str, ...] = ("model",)
    sections: tuple[str, ...] = ("dataset",)
    selects: str = "the learning rate"
    fixes: str = "p = 0.125 and interval 1"
    axis: str = ""
    tuned_p: bool = False

    def choice(self, split: str) -> str:
        """The sentence on what is selected over, by which split, and what is fixed."""
        chosen = f"Chosen on {split}: {self.selects}. " if self.selects else ""
        return f"{chosen}Fixed: {self.fixes}."


def _by_interval(title: str) -> Layout:
    return Layout(
        title,
        columns=("interval",),
        sections=("dataset", "model"),
        fixes="p = 0.125 and the interval of each column; other steps are those of Muon or NorMuon",
    )


def _by_lr(title: str) -> Layout:
    return Layout(
        title,
        columns=("lr",),
        sections=("dataset", "model"),
        selects="",
        fixes="p = 0.125, interval 1 and the learning rate of each column",
        axis="lr",
    )


def _by_p(title: str, workload: tuple[str, ...] = ("model",)) -> Layout:
    return Layout(
        title,
        rows=(*workload, "optimizer"),
        columns=("p",),
        sections=() if "dataset" in workload else ("dataset",),
        fixes="interval 1 and the p of each column; p=0 is Muon or NorMuon at its own best learning rate",
        axis="p",
        tuned_p=True,
    )


LAYOUTS: dict[str, Layout] = {
    "main_result": Layout("LLaMA on C4"),
    "openwebtext": Layout("GPT-2 small on OpenWebText"),
    "cifar": Layout("ResNets on CIFAR", columns=("dataset", "model"), sections=()),
    "imagenet": Layout("ViT-Tiny on ImageNet-1K", fixes="p = 0.03125 and interval 1"),
    "llama_1b": Layout("LLaMA-1B on C4", fixes="p = 0.125 and interval 5"),
    "commonsense": Layout(
        "LLaMA-1B on multiple-choice questions",
        columns=("metric",),
        sections=("dataset", "model"),
        selects="the learning rate, by perplexity",
        fixes="p = 0.125 and interval 5",
    ),
    "optimizer_variants": Layout("HTMuon among other optimizers on C4"),
    "interval_perplexity": _by_interval("if the map is applied at every k-th step"),
    "interval_step_time": _by_interval("time of a step if the map is applied at every k-th step"),
    "wall_clock": Layout(
        "quality and time of a training",
        rows=("optimizer", "interval"),
        columns=("model", "metric"),
        fixes="p = 0.125 and the interval of each row",
    ),
    "lr_grid_c4": _by_lr("C4 by learning rate"),
    "lr_grid_cifar100": _by_lr("CIFAR-100 by learning rate"),
    "lr_grid_cifar10": _by_lr("CIFAR-10 by learning rate"),
    "p_grid_c4": _by_p("C4 by p"),
    "p_grid_cifar": _by_p("CIFAR by p", workload=("dataset", "model")),
    "p_grid_openwebtext": _by_p("OpenWebText by p"),
    "htmuon_ht": Layout(
        "HTMuon_HT beside HTMuon on C4", fixes="p = 0.125 or rank exponent 0.25, and interval 1"
    ),
    "wall_clock_to_target": Layout(
        "time until Muon's final perplexity",
        rows=("optimizer", "interval"),
        fixes="p = 0.125 and interval 5",
    ),
}
