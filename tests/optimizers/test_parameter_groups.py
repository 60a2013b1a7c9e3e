"""`build` in a user's own loop: parameter lists, group dicts, groups that are added later, schedulers."""

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from htbench.harness.bench.contract import equal
from htbench.optimizers import ZOO, Hybrid, Muon, build
from htbench.optimizers.reach import treatments
from tests.helpers.rows import every_row, of_rows, walk

with_aux = of_rows([name for name, row in ZOO.items() if row.has_aux])


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 6), nn.Linear(6, 3))


def halves(model: nn.Sequential) -> list[dict[str, Any]]:
    """Two groups, each with matrices and vectors, the second with settings of its own."""
    first, second = model[:2], model[3:]
    return [{"params": list(first.parameters())}, {"params": list(second.parameters()), "lr": 0.02}]


def described(optimizer: torch.optim.Optimizer, model: nn.Module) -> list[dict[str, Any]]:
    """The groups, with the names of their parameters in place of them."""
    names = {p: name for name, p in model.named_parameters()}
    return [group | {"params": [names[p] for p in group["params"]]} for group in optimizer.param_groups]


# --- what it takes ---


WAYS: dict[str, Callable[[nn.Module], Any]] = {
    "list": lambda model: list(model.parameters()),
    "generator": lambda model: model.parameters(),
    "group": lambda model: [{"params": list(model.parameters())}],
    "generator in a group": lambda model: iter([{"params": model.parameters()}]),
    "pairs": lambda model: model.named_parameters(),
    "pairs in a group": lambda model: [{"params": model.named_parameters()}],
}


@every_row
def test_parameters_are_the_same_input_as_their_model(name: str) -> None:
    reference = net()
    expected = walk(reference, build(name, reference, routing="matrix"))
    for how, given in WAYS.items():
        model = net()
        assert equal(walk(model, build(name, given(model), routing="matrix")), expected), how


@pytest.mark.parametrize("name", ["adamw", "sophia", "muon"])
def test_names_stay_in_the_groups_as_in_torch(name: str) -> None:
    model = net()
    groups = build(name, model.named_parameters()).param_groups
    names = {p: name for name, p in model.named_parameters()}
    assert all(group["param_names"] == [names[p] for p in group["params"]] for group in groups)
    assert not any("param_names" in group for group in build(name, model).param_groups)


def test_a_single_tensor_is_a_group_and_keys_of_the_user_stay() -> None:
    W = nn.Parameter(torch.ones(3, 2))
    (group,) = build("muon", [{"params": W, "name": "mine", "lr": "2e-2"}]).param_groups
    assert (group["params"], group["name"], group["lr"]) == ([W], "mine", 0.02)


def test_frozen_parameters_of_a_list_stay_in_it() -> None:
    model = net()
    model[0].weight.requires_grad_(False)
    for given, count in ((model, 7), (model.named_parameters(), 7), (model.parameters(), 8)):
        groups = build("muon", given).param_groups
        assert sum(len(group["params"]) for group in groups) == count


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (nn.Parameter(torch.ones(2)), "^build takes a model, a list .* got one Parameter$"),
        ({"params": []}, "^build takes a model, a list .* got one dict$"),
        (3, "^build takes a model, a list .* got one int$"),
        ({nn.Parameter(torch.ones(2))}, "^parameters must be in an order that stays, got a set"),
        (
            [{"params": {nn.Parameter(torch.ones(2))}}],
            "^parameters must be in an order that stays, got a set",
        ),
        ([{"lr": 1.0}], "^a parameter group must be a dict with 'params', got {'lr': 1.0}$"),
        ([{"params": []}, nn.Linear(2, 2)], "^a parameter group must be a dict with 'params', got Linear"),
        ([0.5], r"^parameters must be tensors or \(name, tensor\) pairs, got float$"),
        ([{"params": [("a", 1)]}], r"^parameters must be tensors or \(name, tensor\) pairs, got int$"),
        ([{"params": []}], "empty parameter list"),
        ([], "empty parameter list"),
    ],
)
def test_what_it_does_not_take(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build("muon", given)


@pytest.mark.parametrize("name", ["adamw", "soap", "muon"])
def test_a_parameter_in_two_groups_is_refused(name: str) -> None:
    W = nn.Parameter(torch.ones(2, 2))
    with pytest.raises(ValueError, match="more than one parameter group"):
        build(name, [{"params": [W]}, {"params": [W], "lr": 0.1}])


# --- settings of a group ---


@every_row
def test_every_hyperparameter_of_a_group_does_what_it_does_in_build(name: str) -> None:
    """A group with all settings is what `build` makes of these settings without groups."""
    row = ZOO[name]
    other = {
        float: lambda param: 0.5 if param.default is None else param.default * 0.5 or 0.25,
        int: lambda param: (param.default or 1) + 1,
        bool: lambda param: not param.default,
        str: lambda param: param.choices[-1],
        tuple: lambda param: tuple(0.5 * x for x in param.default),
    }
    # another map may want another p
    settings = {key: other[param.type](param) for key, param in row.params.items() if key != "spectral"}
    settings |= {"lr": 0.02, "weight_decay": 0.3, "aux_lr": 0.004}
    first, second = net(), net()
    expected = build(name, first, routing="matrix", **settings)
    found = build(name, [{"params": list(second.parameters()), **settings}], routing="matrix")
    assert described(found, second) == described(expected, first)
    assert equal(walk(first, expected), walk(second, found))


@with_aux
def test_the_lr_of_a_group_is_not_that_of_its_adamw(name: str) -> None:
    model = net()
    groups = [{"params": list(model[0].parameters()), "lr": 0.5}]
    rule, aux = build(name, groups, aux_lr=0.003, routing="matrix").param_groups
    assert (rule["lr"], aux["lr"]) == (0.5, 0.003)
    vectors = {"params": [model[0].bias], "lr": 0.5}
    said = "^all parameters of this group go to the auxiliary AdamW: give its .* as aux_lr, not as lr=0.5$"
    with pytest.raises(ValueError, match=said):
        build(name, [vectors], routing="matrix")
    (group,) = build(name, [vectors | {"aux_lr": 0.25}], routing="matrix").param_groups
    assert group["lr"] == 0.25


def test_the_weight_decay_of_a_group_is_that_of_its_adamw_unless_it_has_its_own() -> None:
    def decays(group: dict[str, float], **settings: float) -> list[float]:
        groups = build("muon", [{"params": list(net().parameters()), **group}], **settings).param_groups
        return [group["weight_decay"] for group in groups]

    assert decays({}, weight_decay=0.2) == [0.2, 0.2]
    assert decays({"weight_decay": 0.3}, weight_decay=0.2) == [0.3, 0.3]
    assert decays({"weight_decay": 0.3}, aux_weight_decay=0.1) == [0.3, 0.1]
    assert decays({"weight_decay": 0.3, "aux_weight_decay": 0.0}) == [0.3, 0.0]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("betas", "^muon has no hyperparameter 'betas'; did you mean aux_betas"),
        ("spectral", "^muon has no hyperparameter 'spectral'"),
    ],
)
def test_a_setting_of_a_part_that_build_does_not_take_is_refused(key: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build("muon", [{"params": list(net().parameters()), key: (0.9, 0.99)}])


# --- groups that are added later ---


@every_row
def test_a_group_that_is_added_is_divided_like_the_first(name: str) -> None:
    together, apart = net(), net()
    whole = build(name, halves(together), routing="matrix")
    first, second = halves(apart)
    grown = build(name, [first], routing="matrix")
    grown.add_param_group(second)
    assert described(grown, apart) == described(whole, together)
    assert equal(walk(apart, grown), walk(together, whole))


@every_row
def test_a_model_that_grows_is_routed_as_if_it_had_been_whole(name: str) -> None:
    model, whole = net()[:4], net()
    optimizer = build(name, model)
    walk(model, optimizer, range(2))
    model.append(nn.Linear(6, 3))
    optimizer.add_param_group({"params": list(model[4].parameters())})

    def treated(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, tuple[str, float]]:
        names, how = {p: name for name, p in model.named_parameters()}, treatments(optimizer)
        groups = {p: group for group in optimizer.param_groups for p in group["params"]}
        return {names[p]: (how[p], groups[p]["weight_decay"]) for p in groups}

    assert treated(optimizer, model) == treated(build(name, whole), whole)
    before = [p.detach().clone() for p in model[4].parameters()]
    walk(model, optimizer, range(2, 5))
    assert not any(torch.equal(p, old) for p, old in zip(model[4].parameters(), before, strict=True))


@every_row
def test_the_state_survives_after_a_group_was_added(name: str) -> None:
    model = net()
    first, second = halves(model)
    optimizer = build(name, [first], routing="matrix")
    optimizer.add_param_group(second)
    walk(model, optimizer, range(3))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    straight = walk(model, optimizer, range(3, 6))

    file.seek(0)
    saved, resumed = torch.load(file, weights_only=True), net(seed=1)
    resumed.load_state_dict(saved["model"])
    second = build(name, halves(resumed), routing="matrix")
    second.load_state_dict(saved["optimizer"])
    assert equal(walk(resumed, second, range(3, 6)), straight)
    assert described(second, resumed) == described(optimizer, model)


@with_aux
def test_a_part_is_made_when_its_first_parameter_comes(name: str) -> None:
    model = net()
    optimizer = build(name, [model[0].bias], routing="matrix")
    assert [type(part) for part in optimizer.parts] == [torch.optim.AdamW]
    optimizer.add_param_group({"params": [model[0].weight]})
    assert len(optimizer.parts) == 2 and [len(group["params"]) for group in optimizer.param_groups] == [1, 1]
    before = model[0].weight.detach().clone()
    walk(model[0], optimizer)
    assert not torch.equal(model[0].weight, before) and set(optimizer.state) == set(model[0].parameters())
    optimizer.load_state_dict(optimizer.state_dict())
    assert all(part.state is optimizer.state for part in optimizer.parts)


def test_routing_by_modules_sees_what_the_model_has_become() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    optimizer = build("muon", model, routing="hidden")
    model.append(nn.Embedding(7, 4)).append(nn.Linear(4, 4))
    optimizer.add_param_group({"params": [*model[1].parameters(), *model[2].parameters()]})
    muon, adamw = ({p for group in part.param_groups for p in group["params"]} for part in optimizer.parts)
    assert model[2].weight in muon and model[1].weight in adamw


def test_a_predicate_is_asked_by_the_name_in_the_model() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    optimizer = build("muon", model, routing=lambda name, p: name == "1.weight")
    model.append(nn.Linear(4, 4))
    optimizer.add_param_group({"params": list(model[1].parameters())})
    (muon,) = [part for part in optimizer.parts if isinstance(part, Muon)]
    assert [group["params"] for group in muon.param_groups] == [[model[1].weight]]
    with pytest.raises(ValueError, match="^parameters need names here"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2, 2))]})


def test_vectors_that_come_later_are_not_decayed_either() -> None:
    model = net()
    optimizer = build("adamw", model[0], no_decay_1d=True)
    optimizer.add_param_group({"params": list(model[3].parameters())})
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0, 0.1, 0.0]


@every_row
@pytest.mark.parametrize("bad", [{"lr": -1.0}, {"params": [nn.Parameter(torch.ones(2, 2)), "no"]}])
def test_a_group_that_is_refused_leaves_the_optimizer_as_it_was(name: str, bad: dict[str, Any]) -> None:
    if ZOO[name].target.startswith("torch.optim:") and "lr" in bad:
        return  # torch checks the lr of its constructor only
    reference, model = net(), net()
    optimizers = [build(name, one[:2], routing="matrix") for one in (reference, model)]
    before = described(optimizers[1], model)
    more = {"params": list(model[3:].parameters())}
    with pytest.raises((TypeError, ValueError)):
        optimizers[1].add_param_group(more | bad)
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizers[1].add_param_group({"params": [*model[3].parameters(), model[0].weight]})
    assert described(optimizers[1], model) == before
    assert equal(walk(model, optimizers[1]), walk(reference, optimizers[0]))


def test_a_matrix_rule_on_its_own_refuses_a_vector_and_stays_as_it_was() -> None:
    muon = Muon([nn.Parameter(torch.ones(2, 2))])
    with pytest.raises(ValueError, match=r"^Muon takes matrices, got shape \(3,\)"):
        muon.add_param_group({"params": [nn.Parameter(torch.ones(3))]})
    assert len(muon.param_groups) == 1


# --- schedulers that would change more than the learning rate ---


def one_cycle(optimizer: torch.optim.Optimizer, **options: Any) -> OneCycleLR:
    peaks = [group["lr"] for group in optimizer.param_groups]
    return OneCycleLR(optimizer, max_lr=peaks, total_steps=10, **options)


@every_row
def test_what_a_cycle_of_the_momentum_does(name: str) -> None:
    """As docs/optimizers.md says: refused of a Hybrid; else momentum or the first of betas is overwritten."""
    optimizer = build(name, net(), routing="matrix")
    if isinstance(optimizer, Hybrid):
        with pytest.raises(ValueError, match="must support momentum or beta1"):
            one_cycle(optimizer)
        return
    one_cycle(optimizer, base_momentum=0.3, max_momentum=0.7)
    for group in optimizer.param_groups:
        assert (group["momentum"] if "momentum" in group else group["betas"][0]) in (0.3, 0.7)
