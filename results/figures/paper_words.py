"""What stands above the panels of the paper's figures."""

from __future__ import annotations

from collections.abc import Iterable

from harness.paper import scales
from results.figures.kinds import PUBLISHED
from results.figures.paper_values import Value
from results.figures.view import View

_WORDS = {
    "llama-60m": "LLaMA-60M",
    "llama-135m": "LLaMA-135M",
    "llama-350m": "LLaMA-350M",
    "llama-1b": "LLaMA-1B",
    "gpt2-small": "GPT-2 small",
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "vit-tiny": "ViT-Tiny",
    "c4": "C4",
    "openwebtext": "OpenWebText",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "imagenet-1k": "ImageNet-1K",
}


def word(name: str) -> str:
    """A dataset or model as the paper writes it."""
    return _WORDS.get(name, name)


def workload(view: View, dataset: str, model: str) -> str:
    """ "LLaMA-60M on C4"; at other scales the names of the twin: "llama-nano-60m on pydocs"."""
    data, net = scales.workload(view.scale, dataset, model)
    return f"{word(net)} on {word(data)}"


def model_word(view: View, dataset: str, model: str) -> str:
    """The model alone."""
    return word(scales.workload(view.scale, dataset, model)[1])


def title(letter: str, text: str) -> str:
    """ "(a) LLaMA-60M on C4"."""
    return f"({letter}) {text}"


def source(view: View) -> str:
    """The first line below a title: whose values these are."""
    if view.ours is None:
        return "published"
    if view.published:
        return "ours beside the published"
    return "ours at full scale" if view.scale == "paper" else f"{view.scale} scale, ours"


def twin(view: View, dataset: str, model: str) -> str:
    """The published workload that a miniature stands for; empty at full scale."""
    return "" if view.scale == "paper" else f"stands for {word(model)} on {word(dataset)}"


def seeds(found: Iterable[Value], what: str = "") -> str:
    """How many seeds our values have: "test, mean ± sd, n = 3"; and how many values are missing, and why."""
    own = [value for value in found if value.source != PUBLISHED]
    counts = sorted({value.n for value in own if value.n is not None})
    missing = [value.state for value in own if value.y is None]
    n = n_of("-".join(map(str, counts))) if counts else ""
    spread = "mean ± sd" if counts and counts[-1] > 1 else ""
    states = [f"{missing.count(state)} {state}" for state in dict.fromkeys(missing)]
    return ", ".join(filter(None, [what if counts else "", spread, n, *states]))


def n_of(counts: str) -> str:
    """ "n = 3", which stays on one line."""
    return f"n\u00a0=\u00a0{counts}"


def below(view: View, dataset: str, model: str, *more: str) -> str:
    """The text below a title."""
    return "\n".join(filter(None, [source(view), twin(view, dataset, model), *more]))
