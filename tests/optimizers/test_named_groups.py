"""Named groups of parameters: who trains what, with which settings, and that nothing else moves."""

import copy

import pytest
import torch
from torch import nn

from htbench import optimizers
from tests.helpers.rows import of_rows, walk


class Tiny(nn.Module):
    """Parameters of each kind, two matrices among them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.conv = nn.Conv1d(8, 8, 3, bias=False)
        self.mlp = nn.Linear(8, 8)
        self.out = nn.Linear(8, 8, bias=False)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 12, bias=False)

    def get_output_embeddings(self) -> nn.Module:
        return self.head


KINDS = {
    "embedding": {"embed.weight"},
    "head": {"head.weight"},
    "vectors": {"mlp.bias", "norm.weight", "norm.bias"},
    "kernels": {"conv.weight"},
    "matrices": {"mlp.weight", "out.weight"},
}


@pytest.fixture
def tiny():
    torch.manual_seed(0)
    return Tiny()


def trained(tiny, name, **settings):
    """A copy of the model after some steps on fixed gradients, and its optimizer."""
    model = copy.deepcopy(tiny)
    optimizer = optimizers.build(name, model, **settings)
    walk(model, optimizer)
    return model, optimizer


def differing(first, second):
    """The names of the parameters that are not the same bit for bit."""
    others = dict(second.named_parameters())
    return {name for name, p in first.named_parameters() if not torch.equal(p, others[name])}


def groups_of(model, optimizer):
    names = {p: name for name, p in model.named_parameters()}
    return {group.get("group"): {names[p] for p in group["params"]} for group in optimizer.param_groups}


def test_each_kind_has_its_parameters_and_rate(tiny):
    rates = dict(zip(KINDS, (0.01, 0.02, 0.03, 0.04, 0.05), strict=True))
    model, optimizer = trained(tiny, "adamw", groups={name: {"lr": lr} for name, lr in rates.items()})
    assert groups_of(model, optimizer) == KINDS
    assert {group["group"]: group["lr"] for group in optimizer.param_groups} == rates


def test_groups_that_leave_all_open_are_what_routing_does(tiny):
    plain, _ = trained(tiny, "muon", routing="hidden", aux_lr=3e-3)
    empty, _ = trained(tiny, "muon", routing="hidden", aux_lr=3e-3, groups=dict.fromkeys(KINDS, {}))
    assert not differing(plain, empty)
    # Where the released code gives the embedding to Muon, a group takes it from there.
    moved, _ = trained(tiny, "muon", aux_lr=3e-3, groups={"embedding": {}, "head": {}})
    assert not differing(plain, moved)


@of_rows([name for name in optimizers.ZOO if name != "sophia"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_group_changes_no_other_parameter(tiny, name):
    plain, _ = trained(tiny, name)
    other, _ = trained(tiny, name, groups={"vectors": {"optimizer": "sgdm", "lr": 0.5}})
    assert differing(plain, other) == KINDS["vectors"]


def test_a_group_is_trained_as_its_optimizer_alone_would(tiny):
    mixed, _ = trained(tiny, "adamw", groups={"matrices": {"optimizer": "muon", "lr": 0.03, "momentum": 0.8}})
    muon, _ = trained(tiny, "muon", lr=0.03, momentum=0.8)
    adamw, _ = trained(tiny, "adamw")
    assert differing(mixed, muon).isdisjoint(KINDS["matrices"])
    assert differing(mixed, adamw) == KINDS["matrices"]


def test_a_pattern_goes_before_a_kind(tiny):
    groups = {"*mlp*": {"optimizer": "muon", "lr": 0.1}, "matrices": {"lr": 0.2}, "vectors": {}}
    with pytest.raises(ValueError, match="Muon takes matrices"):
        trained(tiny, "muon", groups=groups)  # a bias is among them
    groups["mlp.w*"] = groups.pop("*mlp*")
    model, optimizer = trained(tiny, "muon", groups=groups)
    found = {name: params for name, params in groups_of(model, optimizer).items() if name is not None}
    assert found == {"mlp.w*": {"mlp.weight"}, "matrices": {"out.weight"}, "vectors": KINDS["vectors"]}


def test_a_weight_that_is_tied_is_of_the_embedding(tiny):
    tiny.head.weight = tiny.embed.weight
    model, optimizer = trained(tiny, "adamw", groups={"embedding": {}, "matrices": {}})
    assert groups_of(model, optimizer)["embedding"] == {"embed.weight"}


def test_two_groups_of_one_class_from_outside_keep_their_own_arguments(tiny):
    kind = "torch.optim:RMSprop"
    groups = {"head": {"optimizer": kind, "alpha": 0.5}, "embedding": {"optimizer": kind, "alpha": 0.9}}
    model, optimizer = trained(tiny, "muon", groups=groups)
    assert {g["group"]: g["alpha"] for g in optimizer.param_groups if "group" in g} == {
        "head": 0.5,
        "embedding": 0.9,
    }
    alone, _ = trained(tiny, kind, alpha=0.5)
    assert differing(model, alone).isdisjoint(KINDS["head"])


@pytest.mark.parametrize("routing", ["matrix", "hidden"])
def test_a_class_from_outside_shares_the_parameters_with_adamw(tiny, routing):
    model, _ = trained(
        tiny, "torch.optim:RMSprop", routing=routing, lr=0.02, aux_lr=0.003, aux_betas=(0.8, 0.9)
    )
    alone, _ = trained(tiny, "torch.optim:RMSprop", lr=0.02)
    adamw, _ = trained(tiny, "adamw", lr=0.003, betas=(0.8, 0.9), weight_decay=0)
    aux = KINDS["vectors"] | (KINDS["embedding"] | KINDS["head"] if routing == "hidden" else set())
    assert differing(model, alone) == aux
    assert differing(model, adamw).isdisjoint(aux)


FLAGGED = """
import torch


class Flagged(torch.optim.SGD):
    def __init__(self, params, lr=0.1, vector_lr=0.5):
        for group in params:
            if "use_muon" not in group:
                raise ValueError("use_muon must be set")
            group.setdefault("lr", lr if group["use_muon"] else vector_lr)
        super().__init__(params, lr=lr)


class Derived(Flagged):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr)
"""


@pytest.mark.parametrize("name", ["Flagged", "Derived"])
def test_a_class_that_asks_for_use_muon_gets_it(name, tiny, tmp_path, monkeypatch):
    (tmp_path / "my_flagged.py").write_text(FLAGGED)
    monkeypatch.syspath_prepend(tmp_path)
    place, vectors = f"my_flagged:{name}", KINDS["vectors"]
    names = {p: key for key, p in tiny.named_parameters()}
    matrices = {*names.values()} - vectors

    def flags(optimizer):
        return {names[p]: group.get("use_muon") for group in optimizer.param_groups for p in group["params"]}

    alone = optimizers.build(place, tiny)
    assert flags(alone) == dict.fromkeys(matrices, True) | dict.fromkeys(vectors, False)
    assert {group["lr"] for group in alone.param_groups} == {0.1, 0.5}
    beside = optimizers.build(place, tiny, routing="matrix", lr=0.2)
    assert flags(beside) == dict.fromkeys(matrices, True) | dict.fromkeys(vectors)
    assert [group["lr"] for group in beside.param_groups if "use_muon" in group] == [0.2]
    grouped = optimizers.build("adamw", tiny, groups={"matrices": {"optimizer": place}})
    assert {name for name, flag in flags(grouped).items() if flag} == KINDS["matrices"]


def test_the_state_goes_on_where_it_was(tiny):
    settings = {"groups": {"embedding": {"optimizer": "sgdm", "lr": 0.1}, "vectors": {"lr": 0.01}}}
    model, optimizer = trained(tiny, "muon", **settings)
    copied = copy.deepcopy(model)
    again = optimizers.build("muon", copied, **settings)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    walk(model, optimizer)
    walk(copied, again)
    assert not differing(model, copied) and groups_of(copied, again) == groups_of(model, optimizer)


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ({"emb": {}}, "there is no group 'emb'; it must be one of embedding, head"),
        ({"head": {"momentun": 1}}, "groups.head is trained by adamw, which has no 'momentun'"),
        ({"head": {"optimizer": "sgdm", "momentun": 1}}, "did you mean momentum"),
        ({"head": {"lr": 0}}, "groups.head.lr must be a finite number > 0, got 0"),
        ({"head": {"optimizer": "moun"}}, "unknown optimizer 'moun'; did you mean muon"),
        ({"*mlp*": {"lr": 0.1}}, "groups.*mlp* must say its optimizer: muon, adamw"),
        ({"*": {"optimizer": "adamw"}, "mlp*": {"optimizer": "adamw"}}, "fits two groups, '*' and 'mlp*'"),
        ({"conv1*": {"optimizer": "adamw"}}, "no parameter is in the group 'conv1*'"),
    ],
)
def test_what_is_wrong_is_one_sentence(tiny, groups, sentence):
    with pytest.raises(ValueError) as caught:
        optimizers.build("muon", tiny, groups=groups)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_without_modules_only_shapes_tell(tiny):
    optimizer = optimizers.build("adamw", tiny.parameters(), groups={"vectors": {"lr": 0.1}})
    assert sum(len(group["params"]) for group in optimizer.param_groups if "group" in group) == 3
    with pytest.raises(ValueError, match="'embedding' must see the modules"):
        optimizers.build("adamw", tiny.parameters(), groups={"embedding": {}})
