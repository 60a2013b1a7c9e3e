"""What every row of the zoo must do, whatever its mathematics; being in `ZOO` is enough to be covered.

What any other class must do, too, is in `harness/bench/contract.py`, with the net. What takes steps is held
against eight rows at every push, against all with `pytest -m slow`.
"""

import inspect
from collections.abc import Callable
from functools import partial
from importlib import import_module

import pytest
import torch
from torch import Tensor, nn

from htbench.harness.bench import contract
from htbench.harness.bench.contract import LEARNS, PROPERTIES, Net, equal
from htbench.optimizers import ZOO, build, resolve
from htbench.optimizers.muon import SCALE_RULES
from htbench.optimizers.spectral import SPECTRAL
from htbench.optimizers.spectral.products import DTYPES
from htbench.optimizers.spectral.rule import SpectralRule
from htbench.optimizers.zoo.spec import STEP
from htbench.optimizers.zoo.spectral import ADAMUON, MUON, NORMUON
from tests.helpers.rows import every_row

AUX = {"aux_betas", "aux_eps", "aux_weight_decay"}
# Used by build, not by the class.
BUILD_LEVEL = {*AUX, "aux_no_decay_1d", "no_decay_1d", "optimize_1d", "fused", *STEP}
# Rows of a class with several maps that have another default than the class, as published for their map.
OWN_DEFAULTS = {
    "dynmuon": {"p", "ema"},
    "polargrad": {"nesterov", "ns_steps", "ns_coefficients"},
    "soap_muon": {"ns_steps", "ns_coefficients"},
}
in_the_table = pytest.mark.parametrize("name", ZOO)
pytestmark = pytest.mark.filterwarnings("ignore:Sophia made")  # these loops make no curvature passes


def constructor(name: str) -> Callable[..., torch.optim.Optimizer]:
    module, cls = ZOO[name].target.split(":")
    return getattr(import_module(module), cls)


@in_the_table
def test_builds_from_flat_keywords(name: str) -> None:
    row, net = ZOO[name], Net()
    plain = build(name, net).param_groups[0]
    assert (plain["lr"], plain["weight_decay"]) == (row.lr.default, row.weight_decay.default)
    optimizer = build(name, net, lr=0.007, weight_decay=0.03, aux_lr=0.002, **resolve(name, {}))
    assert isinstance(optimizer, torch.optim.Optimizer)
    assert {p for group in optimizer.param_groups for p in group["params"]} == set(net.parameters())
    assert {group["lr"] for group in optimizer.param_groups} == ({0.007, 0.002} if row.has_aux else {0.007})
    decays = {0.03, 0.0} if "aux_no_decay_1d" in row.params else {0.03}
    assert {group["weight_decay"] for group in optimizer.param_groups} == decays


@every_row
def test_lowers_a_quadratic(name: str) -> None:
    # the steps of AdaMuon and GaLore are 0.2 lr and 0.25 lr per entry, whatever the gradient
    # and those of Scion 50 lr; SOAP-Muon's go along the gradient's own directions less than Muon's; KL-SOAP's
    # of 0.03 leave 0.02 to 0.13 of the loss, by draw and rounding, those of 0.06 at most 0.04
    lr = {"galore": 0.1, "prodigy": 1.0, "scion": 6e-4, "soap_muon": 0.05, "kl_soap": 0.06}.get(
        name, 0.1 if "adamuon" in name else 0.03
    )
    contract.lowers_a_quadratic(partial(build, name), routing="matrix", lr=lr, weight_decay=0)


@every_row
def test_lowers_the_loss_of_a_net(name: str) -> None:
    # The default is the most that an entry moves in a step (of Muown's a fifth), and meant for thousands.
    meant_for_thousands = {"sophia": 3e-3, "lion": 3e-3, "signum": 3e-3, "muown": 0.02}
    contract.lowers_the_loss_of_a_net(partial(build, name), lr=meant_for_thousands.get(name))


@every_row
@pytest.mark.parametrize("property_", [one for one in PROPERTIES if one not in (LEARNS, "skips_missing")])
def test_every_property_holds(name: str, property_: str) -> None:
    PROPERTIES[property_](contract.builder(name, {}))


@every_row
def test_only_parameters_with_a_gradient_have_a_state(name: str) -> None:
    contract.parameters_without_gradient_are_skipped(partial(build, name))


@every_row
def test_a_diverged_gradient_is_not_an_error(name: str) -> None:
    for bad in (torch.nan, torch.inf):
        W = nn.Parameter(torch.ones(3, 4))
        optimizer = build(name, [("W", W)], routing="matrix")
        W.grad = torch.full((3, 4), bad)
        optimizer.step()
        # A step along signs shows that of an infinite gradient only, as do Sophia's first ones; m tells.
        # ADOPT's first gradient moves nothing; v tells.
        signs = bad == torch.inf and name in ("sophia", "lion", "signum")
        shown = optimizer.state[W]["m"] if signs else optimizer.state[W]["v"] if name == "adopt" else W
        assert not shown.isfinite().all(), bad


@every_row
def test_groups_have_hyperparameters_of_their_own(name: str) -> None:
    def parameter() -> nn.Parameter:
        return nn.Parameter(torch.ones(4, 3, dtype=torch.float64))

    def walked(*optimizers: torch.optim.Optimizer) -> list[Tensor]:
        params = [p for o in optimizers for group in o.param_groups for p in group["params"]]
        for step in range(3):
            generator = torch.Generator().manual_seed(step)
            for p in params:
                p.grad = torch.randn(4, 3, generator=generator, dtype=torch.float64)
            for optimizer in optimizers:
                optimizer.step()
        return [p.detach() for p in params]

    cls, fixed = constructor(name), ZOO[name].fixed
    first, second = {"lr": 0.05, "weight_decay": 0.2}, {"lr": 0.01}
    together = cls([{"params": [parameter()], **first}, {"params": [parameter()]}], **second, **fixed)
    apart = [cls([parameter()], **given, **fixed) for given in (first, second)]
    assert equal(walked(together), walked(*apart))


@in_the_table
def test_row_and_constructor_agree(name: str) -> None:
    row, signature = ZOO[name], arguments(constructor(name))
    assert {"params", "lr", "weight_decay", *row.fixed} <= signature.keys()
    assert {key for key, param in row.params.items() if param.used_by != "rule"} <= BUILD_LEVEL
    for key in row.params.keys() - BUILD_LEVEL:
        default = signature[key].default
        # torch.optim.SGD has no momentum unless asked; a row may begin with another map than its class
        exempt = row.target == "torch.optim:SGD" or key == "spectral" or key in OWN_DEFAULTS.get(name, ())
        assert default == row.params[key].default or exempt, key
    assert not row.params.keys() & row.fixed.keys()
    assert (row.params.keys() >= AUX) == row.has_aux == bool(AUX & row.params.keys())
    assert row.family in ("elementwise", "spectral", "subspace") and row.state and row.vectors


def arguments(cls: Callable[..., torch.optim.Optimizer]) -> dict[str, inspect.Parameter]:
    """The arguments of a constructor, those that SpectralRule adds to its subclasses' included."""
    own = dict(inspect.signature(cls).parameters)
    if "shared" in own:
        del own["shared"]
        rule = dict(inspect.signature(SpectralRule).parameters)
        del rule["own"]
        own = {**rule, **own}
    return own


@in_the_table
def test_the_arguments_of_our_classes_are_those_of_their_tables_and_in_the_groups(name: str) -> None:
    cls = constructor(name)
    if not hasattr(cls, "table"):
        assert ZOO[name].target.startswith("torch.optim:")
        return
    (group,) = cls([nn.Parameter(torch.ones(2, 2))], lr=0.125, **ZOO[name].fixed).param_groups
    assert group.keys() == {"params", "rule_name", *cls.table} and group["lr"] == 0.125
    signature = arguments(cls)
    del signature["params"]
    same = {key for key in signature if cls.table[key].default == signature[key].default}
    assert signature.keys() == cls.table.keys()
    # a class has one default where its rows have several
    assert signature.keys() - same <= {"lr", "weight_decay"}


def test_the_words_of_the_tables_are_those_of_the_code() -> None:
    assert MUON["spectral"].choices == tuple(SPECTRAL)
    assert MUON["scale_rule"].choices == (*SCALE_RULES, "nuclear")  # of M and O, not of m and n
    assert MUON["ns_dtype"].choices == tuple(DTYPES)
    assert MUON.keys() & NORMUON.keys() & ADAMUON.keys() == MUON.keys() - {"scale_rule", "map_first"}


@every_row
def test_wrong_hyperparameters_are_refused_with_what_is_allowed(name: str) -> None:
    row = ZOO[name]
    for key, param in {"lr": row.lr, "weight_decay": row.weight_decay, **row.params}.items():
        for bad in ("so", [1.0], torch.nan, -1.0, 1e400):
            with pytest.raises(ValueError, match=f"^{key} must be ") as caught:
                build(name, Net(), **{key: bad})
            assert param.allowed() in str(caught.value)
