"""The scales at which the paper's experiments exist, and the twin of each of its workloads there. Torch-free.

`paper`: as published, on GPUs. `nano`: its image experiments in miniature on embedded data, honestly chosen
and reported. `quick`: `nano` with fewer steps and learning rates, to see all of it once. `ladder`: two of its
language models, trained as long as the paper's; its sweeps tune the weight decay, too, and have more than the
paper. What has no twin at a scale can't be decided there.
"""

SCALES = ("paper", "nano", "quick", "ladder")
Workload = tuple[str, str]  # task and model

WORKLOADS: tuple[Workload, ...] = (
    ("c4", "llama-60m"),
    ("c4", "llama-135m"),
    ("c4", "llama-350m"),
    ("c4", "llama-1b"),
    ("openwebtext", "gpt2-small"),
    ("cifar10", "resnet18"),
    ("cifar10", "resnet50"),
    ("cifar100", "resnet18"),
    ("cifar100", "resnet50"),
    ("imagenet-1k", "vit-tiny"),
)  # of the paper
# Of images only: language models that small learn too little in minutes to tell optimizers apart.
_NANO: dict[Workload, Workload] = {
    ("cifar10", "resnet18"): ("digits", "resnet-nano"),
    ("cifar10", "resnet50"): ("digits", "resnet-nano-50"),
    ("cifar100", "resnet18"): ("glyphs", "resnet-nano"),
    ("cifar100", "resnet50"): ("glyphs", "resnet-nano-50"),
    ("imagenet-1k", "vit-tiny"): ("glyphs", "vit-nano"),
}
_LADDER: dict[Workload, Workload] = {
    ("c4", "llama-60m"): ("pydocs", "llama-s1"),
    ("c4", "llama-135m"): ("pydocs", "llama-s2"),
}
_TWINS = {
    "paper": dict(zip(WORKLOADS, WORKLOADS, strict=True)),
    "nano": _NANO,
    "quick": _NANO,
    "ladder": _LADDER,
}


def twins(scale: str) -> dict[Workload, Workload]:
    """By workload of the paper the task and model that stand for it at a scale."""
    return _TWINS[scale]


def workload(scale: str, dataset: str, model: str) -> Workload:
    """The twin of a workload of the paper at a scale; where there is none, the paper's names."""
    return twins(scale).get((dataset, model), (dataset, model))


def has_languages(scale: str) -> bool:
    """Whether a scale can say anything of language models."""
    return ("c4", "llama-60m") in twins(scale)
