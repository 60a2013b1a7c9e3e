"""The scales at which the paper's experiments exist, and the twin of each of its workloads there. Torch-free.

`paper`: as published, on GPUs. `nano`: the same in miniature on embedded data, honestly chosen and reported.
`quick`: `nano` with fewer steps and learning rates, to see everything once. `ladder`: two of its language
models, trained as long as the paper's; its sweeps tune the weight decay, too, and have more than the paper.
"""

from dataclasses import replace

from harness.paper.reported import Setting

SCALES = ("paper", "nano", "quick", "ladder")
Workload = tuple[str, str]  # task and model

# The four LLaMA models keep the proportions of the paper's four in width, depth and heads.
_NANO: dict[Workload, Workload] = {
    ("c4", "llama-60m"): ("pydocs", "llama-nano-60m"),
    ("c4", "llama-135m"): ("pydocs", "llama-nano-135m"),
    ("c4", "llama-350m"): ("pydocs", "llama-nano-350m"),
    ("c4", "llama-1b"): ("pydocs", "llama-nano-1b"),
    ("openwebtext", "gpt2-small"): ("pydocs", "gpt2-nano"),
    ("cifar10", "resnet18"): ("digits", "resnet-nano"),
    ("cifar10", "resnet50"): ("digits", "resnet-nano-50"),
    ("cifar100", "resnet18"): ("glyphs", "resnet-nano"),
    ("cifar100", "resnet50"): ("glyphs", "resnet-nano-50"),
    ("imagenet-1k", "vit-tiny"): ("glyphs", "vit-nano"),
}
WORKLOADS = tuple(_NANO)  # of the paper
_LADDER: dict[Workload, Workload] = {
    ("c4", "llama-60m"): ("pydocs", "llama-s1"),
    ("c4", "llama-135m"): ("pydocs", "llama-s2"),
}
_TWINS = {"paper": dict(zip(WORKLOADS, WORKLOADS, strict=True)), "ladder": _LADDER}


def twins(scale: str) -> dict[Workload, Workload]:
    """By workload of the paper the task and model that stand for it at a scale."""
    return _TWINS.get(scale, _NANO)


def workload(scale: str, dataset: str, model: str) -> Workload:
    """The twin of a workload of the paper at a scale; where there is none, the paper's names."""
    return twins(scale).get((dataset, model), (dataset, model))


def setting(scale: str, published: Setting) -> Setting:
    """The setting that stands for a published one at a scale.

    Only the paper's own scale repeats runs deliberately (on other GPUs, or to look again at a doubtful cell).
    The ladder keeps its ablations of HTMuon apart, so that they do not compete in its endpoint.
    """
    varied = published.optimizer == "htmuon" and (published.p, published.interval) != (0.125, 1)
    word = "ablation" if scale == "ladder" and varied else ""
    return published if scale == "paper" else replace(published, replica=word)
