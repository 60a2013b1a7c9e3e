"""How the hyperparameters of the golden files are said in ours: one `hyper` becomes arguments of `build`."""

from typing import Any

Hyper = dict[str, Any]

# The auxiliary AdamW of the Muon family comes as aux_lr, aux_betas, aux_eps, aux_weight_decay, as ours.
DROPPED = {"aux", "max_precond_dim_merged", "merge_dims", "precondition_1d", "normalize_grads", "is_approx"}
DROPPED |= {"mars_type", "proj_type", "bs"}
RENAMED = {
    "ns_root_steps": "root_steps",
    "ns_root_eps": "root_eps",
    "normuon_eps": "eps",
    "lr_1d": "aux_lr",
    "betas_1d": "aux_betas",
    "weight_decay_1d": "aux_weight_decay",
    "mask_mean_floor": "mask_floor",
    "update_proj_gap": "update_gap",
}
QUIRK = {"conv_reference_quirk": True}
NORMUONS = ("normuon", "htmuon_normuon", "htmuon_ht_normuon")
GIVEN = {
    **dict.fromkeys(("muon", "muon_svd", "htmuon", "htmuon_ns", "htmuon_ht", *NORMUONS), QUIRK),
    # Said in words in the file.
    "adamuon": {"aux_lr": 1e-3, "aux_betas": (0.9, 0.95), "aux_eps": 1e-8, **QUIRK},
    "mars": {"weight_decay": 0.0, "routing": "released"},
    # As in the original, only two-dimensional parameters are projected.
    "galore": {"routing": lambda name, p: p.ndim == 2},
}


def arguments(optimizer: str, setting: str, hyper: Hyper) -> tuple[str, Hyper]:
    """The row of the zoo and the arguments of `build` for one setting of one golden file."""
    name = optimizer.removesuffix("_interval")
    names = RENAMED | ({"alpha": "rank_exponent"} if "_ht" in name else {})
    hyper = {names.get(key, key): value for key, value in hyper.items() if key not in DROPPED}
    hyper = {"routing": "matrix", **GIVEN.get(name, {}), **hyper}
    if name in NORMUONS:
        if "root_steps" in hyper:
            hyper["spectral"] = "ns_root"
        if hyper.pop("scale", "").startswith("0.2"):
            hyper["norm_rule"] = "rms0.2"
        if setting.startswith("original"):
            hyper["eps_placement"] = "outside"
    elif name == "adamuon":
        hyper["ema"] = "lerp" in setting
    elif name == "cautious":
        hyper["raw_eps"] = not hyper.pop("foreach")
        del hyper["correct_bias"]
    elif name == "soap" and hyper["shampoo_beta"] < 0:
        hyper["shampoo_beta"] = None
    elif name == "sophia":
        order = hyper.pop("order")
        hyper |= {"curvature_at_start": order == "paper", "sign_momentum": order == "never"}
        hyper["curvature_interval"] = max(1, hyper.pop("k"))
    elif name == "cosmos" and "nestrov" in hyper:
        hyper["momentum_rule"] = "nesterov" if hyper.pop("nestrov") else "gradient"
        # The original has one b2 for all, and 0.9 in the Adam of the other tensors.
        hyper |= {"betas": (*hyper["betas"], hyper["betas"][1]), "fallback_beta1": 0.9}
    elif name == "cosmos" and "gpt" in setting:
        hyper |= {"side": "left", "split_qkv": True}
    elif name == "scion" and hyper["routing"] == "none":
        # Without a matrix for the rule, all of it goes to the rest, which has the norm "sign".
        hyper["routing"] = lambda name, p: False
    return name, hyper
