"""Which parameter gets which rule, and two optimizers that behave as one."""

from functools import partial

import pytest
import torch
from torch import nn

from htbench.optimizers import ZOO, Hybrid, Muon, build, split_parameters
from tests.helpers.rows import every_row


class LanguageModel(nn.Module):
    """Names are chosen to mislead a router that reads them."""

    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.lm_head_norm = nn.LayerNorm(4)
        self.embed_mixer = nn.Linear(4, 4)
        self.words = nn.Embedding(9, 4)
        self.projection = nn.Linear(4, 9, bias=False)
        if tied:
            self.projection.weight = self.words.weight

    def get_output_embeddings(self) -> nn.Module:
        return self.projection


class Classifier(nn.Module):
    """An image model without get_output_embeddings, or with one that answers None."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.head = nn.Linear(4, 10)


class Headless(Classifier):
    def get_output_embeddings(self) -> None:
        return None


def names(model: nn.Module, params: list[nn.Parameter]) -> set[str]:
    return {name for name, p in model.named_parameters() if any(p is q for q in params)}


MATRICES = {"embed_mixer.weight", "words.weight", "projection.weight"}
VECTORS = {"lm_head_norm.weight", "lm_head_norm.bias", "embed_mixer.bias"}


@pytest.mark.parametrize(
    ("routing", "expected"),
    [
        ("released", MATRICES),
        ("matrix", MATRICES),
        ("hidden", {"embed_mixer.weight"}),
        (lambda name, p: name.startswith("words"), {"words.weight"}),
    ],
)
def test_routing_of_a_language_model(routing: object, expected: set[str]) -> None:
    model = LanguageModel()
    matrix, rest = split_parameters(model, routing)
    assert names(model, matrix) == expected and names(model, rest) == (MATRICES | VECTORS) - expected
    assert len(matrix) + len(rest) == 6


@pytest.mark.parametrize(("routing", "count"), [("matrix", 2), ("hidden", 1)])
def test_a_tied_weight_counts_once(routing: str, count: int) -> None:
    model = LanguageModel(tied=True)
    matrix, rest = split_parameters(model, routing)
    assert len(matrix) == count and len(matrix) + len(rest) == 5
    pairs = list(model.named_parameters(remove_duplicate=False))
    assert len(pairs) == 6 and split_parameters(pairs, "matrix")[0] == split_parameters(model, "matrix")[0]


@pytest.mark.parametrize("cls", [Classifier, Headless])
@pytest.mark.parametrize("routing", ["released", "hidden"])
def test_without_an_output_layer_and_frozen_parameters(cls: type[Classifier], routing: str) -> None:
    model = cls()
    matrix, rest = split_parameters(model, routing)
    assert names(model, matrix) == {"conv.weight", "head.weight"}
    assert names(model, rest) == {"conv.bias", "head.bias"}


@pytest.mark.parametrize(("name", "routing"), [("muon", "hidden"), ("adamuon", "released")])
def test_some_routings_need_the_modules(name: str, routing: str) -> None:
    with pytest.raises(ValueError, match=f"^routing '{routing}' must see the modules: pass the model"):
        build(name, LanguageModel().named_parameters(), routing=routing)


def test_a_predicate_needs_names() -> None:
    with pytest.raises(ValueError, match="^parameters need names here"):
        build("muon", LanguageModel().parameters(), routing=lambda name, p: p.ndim == 2)


def test_unknown_routing() -> None:
    uses = [partial(build, name, LanguageModel()) for name in ZOO]
    for use in (*uses, partial(split_parameters, LanguageModel())):
        with pytest.raises(ValueError, match="^routing must be one of released, matrix, hidden, got 'hid'"):
            use(routing="hid")


@pytest.mark.parametrize("routing", ["released", "matrix", "hidden"])
def test_one_rule_for_all_without_aux(routing: str) -> None:
    model = LanguageModel()
    groups = build("adamw", model, routing=routing, aux_lr=0.5).param_groups
    assert [g["lr"] for g in groups] == [1e-3] and groups[0]["params"] == list(model.parameters())


def test_no_part_is_built_empty() -> None:
    matrix, vector = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(3))
    for pairs, kinds in (
        ([("W", matrix)], [Muon]),
        ([("b", vector)], [torch.optim.AdamW]),
        ([("W", matrix), ("b", vector)], [Muon, torch.optim.AdamW]),
    ):
        optimizer = build("muon", pairs)
        assert isinstance(optimizer, Hybrid) and [type(part) for part in optimizer.parts] == kinds
    with pytest.raises(ValueError, match="empty parameter list"):
        build("muon", [])


def test_the_auxiliary_adamw_has_its_own_hyperparameters() -> None:
    settings = {"weight_decay": 0.3, "aux_betas": (0.8, 0.7), "aux_eps": 1e-5}
    rule, aux = build("htmuon", LanguageModel(), lr=0.05, aux_lr=0.002, **settings).param_groups
    assert (rule["lr"], rule["weight_decay"]) == (0.05, 0.3)
    assert (aux["lr"], aux["weight_decay"], aux["betas"], aux["eps"]) == (0.002, 0.3, (0.8, 0.7), 1e-5)
    rule, aux = build("htmuon", LanguageModel(), weight_decay=0.3, aux_weight_decay=0).param_groups
    assert (rule["weight_decay"], aux["weight_decay"]) == (0.3, 0.0)
    assert (aux["lr"], aux["betas"], aux["eps"]) == (1e-3, (0.9, 0.95), 1e-10)
    with pytest.raises(ValueError, match="^aux_lr must be a finite number > 0, got 0"):
        build("htmuon", LanguageModel(), aux_lr=0)


def test_no_decay_1d() -> None:
    model = LanguageModel()
    decayed, kept = build("adamw", model, weight_decay=0.2, no_decay_1d=True).param_groups
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.2, 0.0)
    assert names(model, decayed["params"]) == MATRICES and names(model, kept["params"]) == VECTORS


@every_row
def test_every_trainable_parameter_is_in_exactly_one_group(name: str) -> None:
    for model in (LanguageModel(), LanguageModel(tied=True), Classifier()):
        for routing in ("released", "matrix", "hidden"):
            groups = build(name, model, routing=routing).param_groups
            covered = [p for group in groups for p in group["params"]]
            assert len(covered) == len(set(covered)), (model, routing)
            assert set(covered) == {p for p in model.parameters() if p.requires_grad}, (model, routing)


def rule_gets(name: str, model: nn.Module, **settings: object) -> set[str]:
    """The names of the parameters in the first group, which is the rule's own."""
    return names(model, build(name, model, **settings).param_groups[0]["params"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("muon", MATRICES),
        ("htmuon_mix", MATRICES),
        ("normuon", MATRICES),
        ("adamuon", MATRICES - {"projection.weight"}),  # the embedding stays, by accident of the release
        ("mars", MATRICES),
        ("galore", {"embed_mixer.weight"}),
        ("soap", MATRICES | VECTORS),
        ("cosmos", MATRICES | VECTORS),
        ("cautious", MATRICES | VECTORS),
        ("sophia", MATRICES | VECTORS),
    ],
)
def test_released_routing_of_each_optimizer(name: str, expected: set[str]) -> None:
    assert rule_gets(name, LanguageModel()) == expected


def test_kernels_by_released_routing() -> None:
    head, both = {"head.weight"}, {"conv.weight", "head.weight"}
    assert rule_gets("muon", Classifier()) == rule_gets("adamuon", Classifier()) == both
    assert rule_gets("mars", Classifier()) == head  # "not 2-D": to AdamW, as released
    assert build("mars", Classifier()).param_groups[1]["lr"] == 3e-3
    assert rule_gets("mars", Classifier(), routing="matrix") == both
    assert rule_gets("galore", Classifier()) == head  # this model does not say that it is its output
    assert rule_gets("mars", Classifier(), optimize_1d=True) == both | {"conv.bias", "head.bias"}


def test_what_galore_does_not_project_has_no_rank() -> None:
    model = LanguageModel()
    projected, plain = build("galore", model, rank=2).param_groups
    assert (projected["rank"], plain["rank"]) == (2, 0)
    assert names(model, plain["params"]) == (MATRICES | VECTORS) - {"embed_mixer.weight"}


def test_adamuon_decays_the_output_layer_but_no_vector() -> None:
    rule, output, vectors = build("adamuon", (model := LanguageModel())).param_groups
    assert names(model, output["params"]) == {"projection.weight"} and output["weight_decay"] == 0.1
    assert names(model, vectors["params"]) == VECTORS and vectors["weight_decay"] == 0


def test_hybrid_shares_groups_and_state_with_its_parts_also_after_loading() -> None:
    model = LanguageModel()
    hybrid = build("muon", model)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    for _ in range(2):
        hybrid.step()
        groups = [group for part in hybrid.parts for group in part.param_groups]
        assert len(groups) == 2 and all(a is b for a, b in zip(groups, hybrid.param_groups, strict=True))
        assert all(part.state is hybrid.state for part in hybrid.parts)
        assert set(hybrid.state) == set(model.parameters())
        hybrid.load_state_dict(hybrid.state_dict())


def test_hybrid_equals_its_parts_on_their_own() -> None:
    together, apart = LanguageModel(), LanguageModel()
    apart.load_state_dict(together.state_dict())
    hybrid = build("muon", together, lr=0.02, aux_lr=0.01, weight_decay=0.1)
    matrix, rest = split_parameters(apart, "released")
    parts = [
        Muon(matrix, 0.02, weight_decay=0.1),
        torch.optim.AdamW(rest, 0.01, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.1, fused=True),
    ]
    for step in range(3):
        for model, optimizers in ((together, [hybrid]), (apart, parts)):
            torch.manual_seed(step)
            for p in model.parameters():
                p.grad = torch.randn_like(p)
            for optimizer in optimizers:
                optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(together.parameters(), apart.parameters(), strict=True))


def test_a_hybrid_made_by_hand_refuses_another_group() -> None:
    hybrid = Hybrid(Muon([nn.Parameter(torch.ones(2, 2))]))
    with pytest.raises(ValueError, match="^a Hybrid cannot take another parameter group"):
        hybrid.add_param_group({"params": [nn.Parameter(torch.ones(2, 2))]})


def test_hybrid_refuses_a_parameter_in_two_parts() -> None:
    W = nn.Parameter(torch.ones(2, 2))
    with pytest.raises(ValueError, match="more than one parameter group"):
        Hybrid(Muon([W]), torch.optim.AdamW([W]))
