"""Whose state an optimizer loads: its own rule's, with words or without; and those of torch's same rules."""

import copy
import functools
import io
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from htbench.harness.bench.contract import equal
from htbench.optimizers import ZOO, HTMuon, Muon, UpdateRule, adopt_state, build
from htbench.optimizers.zoo.param import UNSET
from htbench.optimizers.zoo.spec import lr, weight_decay
from tests.helpers.rows import walk

in_the_table = pytest.mark.parametrize("name", ZOO)
pytestmark = pytest.mark.filterwarnings("ignore:Sophia made")
# Where a state has no word, the settings of the first are some of the second.
SETTINGS_OF = {("muon_svd", "htmuon"), ("polargrad", "muon")}


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))


@functools.cache
def stepped(name: str) -> tuple[nn.Sequential, Optimizer]:
    model = net()
    optimizer = build(name, model, routing="matrix")
    walk(model, optimizer, range(2))
    return model, optimizer


def state_of(name: str, words: bool = True) -> dict[str, Any]:
    """Its state after two steps; without words it is one of version 0.1.0."""
    state = copy.deepcopy(stepped(name)[1].state_dict())
    if not words:
        before = {key: param.before for key, param in ZOO[name].params.items() if param.before is not UNSET}
        for group in state["param_groups"]:
            newer = [key for key, value in before.items() if group.get(key) == value]
            for key in ("rule_name", *newer):
                group.pop(key, None)
    return state


def main_rule(name: str) -> str:
    """What a sentence calls a row."""
    cls = ZOO[name].target.partition(":")[2]
    return f"torch.optim.{cls}" if ZOO[name].target.startswith("torch.optim:") else name


@in_the_table
@pytest.mark.parametrize("words", [True, False])
def test_every_row_refuses_the_states_of_all_others_and_names_both(name: str, words: bool) -> None:
    model = net(seed=1)
    optimizer = build(name, model, routing="matrix", lr=0.5)
    before = copy.deepcopy(optimizer.state_dict())
    for other in ZOO.keys() - {name}:
        if not words and (other, name) in SETTINGS_OF:
            continue
        with pytest.raises(ValueError, match="can't go on from it") as refusal:
            optimizer.load_state_dict(state_of(other, words))
        if words:
            said = (
                f"this state was written by {main_rule(other)}, and {main_rule(name)} can't go on from it: "
            )
            assert str(refusal.value).startswith(said)
    assert optimizer.state_dict() == before


@in_the_table
def test_a_state_without_words_goes_on_bit_for_bit_and_gets_them(name: str) -> None:
    model, optimizer = copy.deepcopy(stepped(name))
    resumed = copy.deepcopy(model)
    second = build(name, resumed, routing="matrix", lr=0.5)
    second.load_state_dict(state_of(name, words=False))
    assert second.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
    assert equal(walk(resumed, second, range(2, 4)), walk(model, optimizer, range(2, 4)))


def test_a_row_says_its_name_however_it_is_made() -> None:
    def names(*optimizers: Optimizer) -> list[str]:
        return [optimizer.param_groups[0]["rule_name"] for optimizer in optimizers]

    W = [nn.Parameter(torch.ones(3, 2))]
    mapped = Muon(W, spectral="svd_power", p=0.3)
    assert names(build("htmuon", W), HTMuon(W), mapped, HTMuon(mapped.param_groups)) == ["htmuon"] * 4
    assert names(build("muon_svd", W), build("htmuon", W, p=0.0)) == ["muon_svd", "htmuon"]
    assert names(build("soap", Muon(W).param_groups), build("muon", W, scale_rule="nuclear")) == [
        "soap",
        "muon",
    ]
    muon = build("muon", W)
    muon.add_param_group({"params": [nn.Parameter(torch.ones(2, 2))], "rule_name": "soap"})
    assert [group["rule_name"] for group in muon.param_groups] == ["muon", "muon"]


def test_the_settings_of_the_same_rule_come_from_the_state() -> None:
    W = [nn.Parameter(torch.ones(3, 2))]
    optimizer = HTMuon(W, lr=0.1, p=0.25)
    with pytest.raises(ValueError, match="^this state was written by muon, and htmuon can't go on from it"):
        optimizer.load_state_dict(Muon(W).state_dict())
    assert (optimizer.param_groups[0]["spectral"], optimizer.param_groups[0]["p"]) == ("gram_power", 0.25)
    optimizer.load_state_dict(HTMuon(W, lr=0.2, p=0.5).state_dict())
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["p"]) == (0.2, 0.5)
    optimizer.load_state_dict(HTMuon(W, lr=0.2, p=0.0).state_dict())  # where a schedule of p may end
    assert optimizer.param_groups[0]["p"] == 0


def test_words_survive_a_file_and_a_copy() -> None:
    _, optimizer = stepped("muon")
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    copied = copy.deepcopy(optimizer)
    copied.load_state_dict(torch.load(file, weights_only=True))
    with pytest.raises(ValueError, match="^this state was written by soap, and muon can't go on from it"):
        copied.load_state_dict(state_of("soap"))


def test_a_hook_of_the_user_may_adapt_the_state_of_another_rule() -> None:
    muon = Muon([nn.Parameter(torch.ones(3, 2))])
    state = HTMuon([nn.Parameter(torch.ones(3, 2))]).state_dict()
    own = muon.state_dict()["param_groups"]
    muon.register_load_state_dict_pre_hook(lambda _, given: {**given, "param_groups": own})
    muon.load_state_dict(state)
    assert muon.param_groups[0]["rule_name"] == "muon"


class Own(UpdateRule):
    """A class of a user, with names as torch has them."""

    table = {"lr": lr(0.1), "weight_decay": weight_decay(0.0)}

    def __init__(self, params: Any, lr: float = 0.1, *, weight_decay: float = 0.0) -> None:
        super().__init__(params, locals())

    def direction(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        state["exp_avg"] = G.clone()
        return G


def test_a_class_of_a_user_has_its_own_name_and_loads_what_it_wrote_before_there_were_names() -> None:
    model = net()
    own = Own(model.parameters())
    walk(model, own)
    state = copy.deepcopy(own.state_dict())
    assert state["param_groups"][0].pop("rule_name") == "Own"
    own.load_state_dict(state)
    with pytest.raises(ValueError, match="^this state was written by Own, and lion can't go on from it"):
        build("lion", model).load_state_dict(own.state_dict())


# --- states of torch's own classes ---


SHAPES = [(64, 32), (32, 64)]


def weights(shapes: Sequence[tuple[int, ...]] = SHAPES) -> nn.ParameterList:
    generator = torch.Generator().manual_seed(0)
    return nn.ParameterList([nn.Parameter(torch.randn(s, generator=generator)) for s in shapes])


def moved(params: nn.ParameterList, optimizer: Optimizer, steps: range) -> list[Tensor]:
    before = [p.detach().clone() for p in params]
    return [after - old for after, old in zip(walk(params, optimizer, steps), before, strict=True)]


@pytest.mark.parametrize("settings", [{}, {"adjust_lr_fn": "match_rms_adamw"}, {"nesterov": False}], ids=str)
def test_muon_goes_on_from_that_of_torch(settings: dict[str, Any]) -> None:
    theirs = weights()
    saved = torch.optim.Muon(theirs, lr=0.02, momentum=0.9, ns_steps=4, weight_decay=0.3, **settings)
    walk(theirs, saved, range(3))
    ours, fresh = copy.deepcopy(theirs), copy.deepcopy(theirs)
    optimizer = build("muon", ours, lr=0.5, ns_dtype="float32")
    adopt_state(optimizer, copy.deepcopy(saved.state_dict()))
    expected, found = moved(theirs, saved, range(3, 4)), moved(ours, optimizer, range(3, 4))
    without = moved(fresh, build("muon", fresh, lr=0.02), range(3, 4))
    buffers = [saved.state[p]["momentum_buffer"] for p in theirs]
    assert equal((optimizer.state[p]["momentum"] for p in ours), buffers)
    for right, mine, other in zip(expected, found, without, strict=True):
        # bfloat16 in Newton-Schulz rounds otherwise, by the processor: up to 4e-3 with AVX2
        assert (mine - right).norm() < 1e-2 * right.norm()
        assert (other - right).norm() > 0.1 * right.norm()


SAME: dict[str, Callable[[Any], Optimizer]] = {
    "adamw": lambda params: AdamW(params, lr=0.01, betas=(0.8, 0.9), eps=1e-6, amsgrad=True),
    "adam": lambda params: Adam(params, lr=0.01, weight_decay=0.2),
    "sgdm": lambda params: SGD(params, lr=0.01, momentum=0.8, nesterov=True, weight_decay=0.2),
}


@pytest.mark.parametrize("name", SAME)
def test_rows_of_torch_go_on_from_its_classes_bit_for_bit(name: str) -> None:
    theirs = net()
    saved = SAME[name](theirs.parameters())
    walk(theirs, saved)
    ours = copy.deepcopy(theirs)
    optimizer = build(name, ours, lr=0.5)
    adopt_state(optimizer, copy.deepcopy(saved.state_dict()))
    assert equal(walk(ours, optimizer, range(4, 7)), walk(theirs, saved, range(4, 7)))


@pytest.mark.parametrize(("cls", "name"), [(Adam, "adamw"), (AdamW, "adam")])
def test_adam_and_adamw_are_one_rule_without_decay_only(cls: type, name: str) -> None:
    theirs = net()
    saved = cls(theirs.parameters(), lr=0.01, weight_decay=0.0)
    walk(theirs, saved)
    ours = copy.deepcopy(theirs)
    optimizer = build(name, ours)
    adopt_state(optimizer, copy.deepcopy(saved.state_dict()))
    assert equal(walk(ours, optimizer, range(4, 7)), walk(theirs, saved, range(4, 7)))
    saved.param_groups[0]["weight_decay"] = 0.1
    with pytest.raises(
        ValueError, match=r"whose rule is not that of torch.optim.Adam.* at weight_decay=0.1$"
    ):
        adopt_state(optimizer, saved.state_dict())


def test_muon_with_its_adamw_goes_on_from_two_states() -> None:
    theirs = net()
    matrices = [p for p in theirs.parameters() if p.ndim == 2]
    vectors = [p for p in theirs.parameters() if p.ndim == 1]
    muon, adamw = torch.optim.Muon(matrices, lr=0.02), AdamW(vectors, lr=0.003, eps=1e-6)
    for optimizer in (muon, adamw):
        walk(theirs, optimizer)
    ours = copy.deepcopy(theirs)
    whole = build("muon", ours)
    adopt_state(whole, *(copy.deepcopy(one.state_dict()) for one in (muon, adamw)))
    assert [group["lr"] for group in whole.param_groups] == [0.02, 0.003]
    found = dict(zip((name for name, _ in ours.named_parameters()), walk(ours, whole), strict=True))
    walk(theirs, adamw)
    assert all(torch.equal(found[name], p) for name, p in theirs.named_parameters() if p.ndim == 1)
    with pytest.raises(
        ValueError, match="^the states have groups of 2 parameters, .* groups of 2 and 2: give "
    ):
        adopt_state(whole, muon.state_dict())


REFUSED: list[tuple[str, Callable[[Any], Optimizer], dict[str, Any], str]] = [
    (
        "soap",
        torch.optim.Muon,
        {},
        "^this state was written by torch.optim.Muon, whose rule is not that of soap$",
    ),
    ("htmuon", torch.optim.Muon, {}, "torch.optim.Muon, whose rule is not that of htmuon$"),
    ("lion", torch.optim.RMSprop, {}, "torch.optim.RMSprop, whose rule is not that of lion$"),
    ("muon", SGD, {}, "torch.optim.SGD, whose rule is not that of muon$"),
    ("muon", functools.partial(torch.optim.Muon, eps=1e-3), {}, "with eps=1e-07 only, not with 0.001$"),
    (
        "muon",
        functools.partial(torch.optim.Muon, ns_coefficients=(2.0, -1.5, 0.5)),
        {},
        r"with ns_coefficients=\(3.4445, -4.775, 2.0315\) only, not with \(2.0, -1.5, 0.5\)$",
    ),
    ("muon", torch.optim.Muon, {"equalize": "row"}, "has nothing like equalize=row: build muon without it$"),
    ("muon", torch.optim.Muon, {"decay": "cautious"}, "has nothing like decay=cautious: build muon without"),
]


@pytest.mark.parametrize(("name", "writer", "settings", "said"), REFUSED)
def test_a_state_of_another_rule_is_not_adopted(name: str, writer: Any, settings: Any, said: str) -> None:
    params = weights()
    optimizer, saved = build(name, params, **settings), writer(params, lr=0.01)
    before = copy.deepcopy(optimizer.state_dict())
    walk(params, saved)
    with pytest.raises(ValueError, match=said):
        adopt_state(optimizer, saved.state_dict())
    assert optimizer.state_dict() == before


def test_a_state_of_other_parameters_or_with_another_setting_is_not_adopted() -> None:
    params = weights()
    saved = torch.optim.Muon(params)
    walk(params, saved)
    optimizer = build("muon", [*params][::-1])
    with pytest.raises(
        ValueError, match=r"^the state of parameter 0 has the shape \(64, 32\), the parameter "
    ):
        adopt_state(optimizer, saved.state_dict())
    saved.param_groups[0]["algo"] = "adamuon"
    with pytest.raises(ValueError, match="^the state has a setting 'algo', which torch.optim.Muon has not: "):
        adopt_state(optimizer, saved.state_dict())


def test_a_subclass_that_only_adds_has_the_rule_of_its_class() -> None:
    class Logged(Muon):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    params = weights()
    Logged(params).load_state_dict(Muon(params).state_dict())
    HTMuon(params).load_state_dict(type("Logged", (HTMuon,), {})(params).state_dict())


def test_what_was_adopted_once_is_adopted_again() -> None:
    params = weights()
    ours = build("muon", [(f"{n}", p) for n, p in enumerate(params)], routing="matrix")
    adopt_state(ours, torch.optim.Muon([*params]).state_dict())
    state = ours.state_dict()
    assert not {"adjust_lr_fn", "eps"} & state["param_groups"][0].keys()
    adopt_state(ours, state)


def test_older_torch_does_not_say_whether_a_state_is_of_adam_or_of_adamw() -> None:
    params = weights()
    named = [(f"{n}", p) for n, p in enumerate(params)]
    state = AdamW([*params], lr=0.1).state_dict()
    for group in state["param_groups"]:
        del group["decoupled_weight_decay"]
    adopt_state(build("adamw", named), state)
    with pytest.raises(ValueError, match="may be of Adam or of AdamW at weight_decay=0.01"):
        adopt_state(build("adam", named), state)


def test_states_of_ours_are_loaded_as_they_are() -> None:
    model, saved = copy.deepcopy(stepped("soap"))
    ours = copy.deepcopy(model)
    optimizer = build("soap", ours, lr=0.5)
    adopt_state(optimizer, copy.deepcopy(saved.state_dict()))
    assert equal(walk(ours, optimizer, range(2, 4)), walk(model, saved, range(2, 4)))
    with pytest.raises(ValueError, match="^this state was written by soap, and lion can't go on from it"):
        adopt_state(build("lion", ours), saved.state_dict())
