"""The names of blocks."""

from __future__ import annotations

from harness.paper.experiments import Place


def block_name(place: Place) -> str:
    """The name of a place's block: "llama-60m-htmuon-p0.1" or "cifar100-resnet18-muon"."""
    setting = place.setting
    parts = [place.dataset, place.model, setting.optimizer]
    parts += [f"p{setting.p:g}"] if setting.p is not None else []
    parts += [f"alpha{setting.rank_exponent:g}"] if setting.rank_exponent is not None else []
    parts += [f"interval{setting.interval}"] if setting.interval not in (None, 1) else []
    parts += [setting.replica] if setting.replica else []
    return "-".join(parts)
