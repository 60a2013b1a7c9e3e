"""Which rows of the zoo are one rule under two names: HTMuon at p = 0 is Muon, however its map is computed.

Standard library only, like the table. A comparison of two such rows compares their settings, not two rules.
`tests/optimizers/test_same_rule.py` takes the steps of both.
"""

from collections.abc import Mapping
from typing import Final

from htbench.optimizers.zoo.param import Value

_FLAT: Final = {"p": 0.0, "rank": None}  # all singular values become 1; a rank leaves some of them out
# By name: the row whose rule it is, and the settings that make it so. Rates and the like are its own.
SAME: Final[Mapping[str, tuple[str, Mapping[str, Value]]]] = {
    "adam": ("adamw", {"weight_decay": 0.0}),
    "sophia": ("signum", {"sign_momentum": True}),
    "ademamix": ("adamw", {"alpha": 0.0}),
    "muon_svd": ("muon", {}),
    **dict.fromkeys(("htmuon", "htmuon_stream", "htmuon_mix", "dynmuon"), ("muon", _FLAT)),
    "htmuon_ht": ("muon", {"rank_exponent": 0.0}),
    "soft_muon": ("muon", {"blend": 0.0}),
    "contra_muon": ("muon", {"contra": 0.0}),
    "soft_polar": ("muon", {"softening": 0.0}),
    "htmuon_normuon": ("normuon", _FLAT),
    "htmuon_ht_normuon": ("normuon", {"rank_exponent": 0.0}),
    "htmuon_adamuon": ("adamuon", _FLAT),
}

EXACT: Final = frozenset({"adam"})  # bit for bit: two such rows with the same settings are one result


def rule_of(name: str, settings: Mapping[str, object]) -> tuple[str, Mapping[str, Value]]:
    """The row whose rule an optimizer is with some settings, and those of them that make it so.

    Args:
        name: of an optimizer.
        settings: by name; one that is not there is None, as is one with a schedule.

    Returns:
        its own name and nothing, unless it is the rule of another row.
    """
    other, needed = SAME.get(name, (name, {}))
    if any(settings.get(key) != value for key, value in needed.items()):
        return name, {}
    return other, {key: value for key, value in needed.items() if value is not None}
