"""How the hyperparameters of the golden files are said in ours: one `hyper` becomes arguments of `build`."""

from typing import Any

Hyper = dict[str, Any]

# The auxiliary AdamW of the Muon family comes as aux_lr, aux_betas, aux_eps, aux_weight_decay, as ours.
DROPPED = {"aux", "max_precond_dim_merged", "merge_dims", "precondition_1d", "normalize_grads", "is_approx"}


def arguments(optimizer: str, setting: str, hyper: Hyper) -> tuple[str, Hyper]:
    """The row of the zoo and the arguments of `build` for one setting of one golden file."""
    hyper = {key: value for key, value in hyper.items() if key not in DROPPED}
    name = optimizer.removesuffix("_interval")
    hyper = RENAME.get(name, lambda hyper, setting: hyper)(hyper, setting)
    return name, {"routing": "matrix", **hyper}


def _rename(hyper: Hyper, **names: str) -> Hyper:
    return {names.get(key, key): value for key, value in hyper.items()}


def _ns(hyper: Hyper, setting: str) -> Hyper:
    return _rename(hyper, ns_root_steps="root_steps", ns_root_eps="root_eps")


def _ht(hyper: Hyper, setting: str) -> Hyper:
    return _rename(hyper, alpha="rank_exponent")


def _normuon(hyper: Hyper, setting: str) -> Hyper:
    hyper = _rename(_ht(_ns(hyper, setting), setting), normuon_eps="eps")
    if "root_steps" in hyper:
        hyper["spectral"] = "ns_root"
    if hyper.pop("scale", "").startswith("0.2"):
        hyper["norm_rule"] = "rms0.2"
    if setting.startswith("original"):
        hyper["eps_placement"] = "outside"
    return {**hyper, "conv_reference_quirk": True}


def _adamuon(hyper: Hyper, setting: str) -> Hyper:
    aux = {"aux_lr": 1e-3, "aux_betas": (0.9, 0.95), "aux_eps": 1e-8}  # said in words in the file
    return {**hyper, **aux, "ema": "lerp" in setting, "conv_reference_quirk": True}


def _muon(hyper: Hyper, setting: str) -> Hyper:
    return {**hyper, "conv_reference_quirk": True}


def _mars(hyper: Hyper, setting: str) -> Hyper:
    hyper = _rename(hyper, lr_1d="aux_lr", betas_1d="aux_betas", weight_decay_1d="aux_weight_decay")
    del hyper["mars_type"]
    return {"weight_decay": 0.0, **hyper, "routing": "released"}


def _cautious(hyper: Hyper, setting: str) -> Hyper:
    raw = not hyper.pop("foreach")
    del hyper["correct_bias"]
    return {**_rename(hyper, mask_mean_floor="mask_floor"), "raw_eps": raw}


def _soap(hyper: Hyper, setting: str) -> Hyper:
    shampoo_beta = hyper.pop("shampoo_beta")
    return {**hyper, "shampoo_beta": None if shampoo_beta < 0 else shampoo_beta}


def _galore(hyper: Hyper, setting: str) -> Hyper:
    del hyper["proj_type"]
    # As in the original, only two-dimensional parameters are projected.
    return {**_rename(hyper, update_proj_gap="update_gap"), "routing": lambda name, p: p.ndim == 2}


def _sophia(hyper: Hyper, setting: str) -> Hyper:
    order, k = hyper.pop("order"), hyper.pop("k")
    del hyper["bs"]
    hyper = {**hyper, "curvature_at_start": order == "paper", "sign_momentum": order == "never"}
    return {**hyper, "curvature_interval": max(1, k)}


def _cosmos(hyper: Hyper, setting: str) -> Hyper:
    nesterov = hyper.pop("nestrov", None)
    if nesterov is None:
        return {**hyper, "side": "left", "split_qkv": True} if "gpt" in setting else hyper
    rule = "nesterov" if nesterov else "gradient"
    # The original has one b2 for all, and 0.9 in the Adam of the other tensors.
    betas = (*hyper["betas"], hyper["betas"][1])
    return {**hyper, "betas": betas, "momentum_rule": rule, "fallback_beta1": 0.9}


def _scion(hyper: Hyper, setting: str) -> Hyper:
    """Without a matrix for the rule, all of it goes to the rest, which has the norm "sign"."""
    return {**hyper, "routing": (lambda name, p: False) if hyper["routing"] == "none" else hyper["routing"]}


RENAME = {
    "scion": _scion,
    "muon": _muon,
    "muon_svd": _muon,
    "htmuon": _muon,
    "htmuon_ns": lambda hyper, setting: _muon(_ns(hyper, setting), setting),
    "htmuon_ht": lambda hyper, setting: _muon(_ht(hyper, setting), setting),
    "normuon": _normuon,
    "htmuon_normuon": _normuon,
    "htmuon_ht_normuon": _normuon,
    "adamuon": _adamuon,
    "mars": _mars,
    "cautious": _cautious,
    "soap": _soap,
    "galore": _galore,
    "sophia": _sophia,
    "cosmos": _cosmos,
}
