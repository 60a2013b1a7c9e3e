"""What is measured of an optimizer is what its formula gives, and each sentence has its defect."""

import importlib
import math

import pytest
import torch

from htbench.harness.bench.measured import SCALE, SHAPES, Measured, measure_optimizer
from htbench.harness.bench.zoo import measure
from htbench.optimizers import ZOO


class Polar(torch.optim.Optimizer):
    """Muon with exact factors; each setting of `broken` breaks one thing."""

    def __init__(self, params, lr=0.02, weight_decay=0.0, nesterov=True, **broken):
        group = {"lr": lr, "weight_decay": weight_decay, "momentum": 0.95, "nesterov": nesterov}
        super().__init__(params, group)
        self.broken = {"jump": 1.0, "kept": 1.0, "power": 0.0, "decays": 1.0, "fresh": False, **broken}

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                m = state.setdefault("m", torch.zeros_like(p)).lerp_(p.grad, 0.05)
                t = state["t"] = state.get("t", 0) + 1
                u = p.grad.lerp(m, 0.95 * self.broken["kept"]) if group["nesterov"] else m
                left, values, right = torch.linalg.svd(u.flatten(1), full_matrices=False)
                factor = values.norm() ** self.broken["power"] * (self.broken["jump"] if t == 2 else 1.0)
                if self.broken["fresh"] and t == 1:
                    p.copy_(torch.randn_like(p))
                p.mul_(1 - self.broken["decays"] * group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * factor * (left @ right).view_as(p))


class Deaf(Polar):
    """It steps with the rate that it was built with."""

    def __init__(self, params, lr=0.02, weight_decay=0.0):
        super().__init__(params, lr, weight_decay)
        self.rate = lr

    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] = self.rate
        super().step()


def measured(cls, flagged=False, **settings):
    def build(model, **more):
        group = {"params": [p for _, p in model], **({"use_muon": True} if flagged else {})}
        return cls([group], **{**settings, **more})

    return measure_optimizer(build)


def kinds(facts):
    return [note.kind.removeprefix("measured_") for note in facts.misleading()]


DEFECTS = [
    (Polar, {"jump": 7.0}, ["jump"]),
    (Polar, {"fresh": True}, ["jump", "no_rate"]),
    (Polar, {"kept": 0.1}, ["memory"]),
    (Polar, {"power": -1.0}, ["exponent"]),
    (Polar, {"power": 1.0}, ["exponent"]),
    (Polar, {"decays": 3.2}, ["decay"]),
    (Polar, {"decays": 0.0}, ["decay"]),
    (Deaf, {}, ["schedule"]),
]


@pytest.mark.parametrize(("cls", "settings", "said"), DEFECTS)
def test_each_defect_has_its_sentence_and_no_other(cls, settings, said):
    facts = measured(cls, **settings)
    assert kinds(facts) == said
    assert all(str(note).startswith("mind ") for note in facts.misleading())


@pytest.mark.parametrize(
    "settings", [{}, {"nesterov": False}, {"jump": 4.5}, {"kept": 0.95}, {"decays": 1.08}]
)
def test_what_is_within_the_bounds_is_not_blamed(settings):
    assert kinds(measured(Polar, **settings)) == []


def test_facts_of_orthogonal_updates_are_those_of_the_formula():
    facts = measured(Polar)
    for moved, shape in zip(facts.movements, SHAPES, strict=True):
        if len(shape) == 1:
            assert moved.refused and moved.first is None
            continue
        rms = 1 / math.sqrt(max(shape[0], math.prod(shape[1:])))  # of a matrix with singular values 1
        assert [moved.first, moved.second, moved.tenth] == pytest.approx([rms] * 3, rel=1e-3)
        assert (moved.scheduled, moved.gradient_left) == pytest.approx((0.5, 1.0), rel=1e-3)
    assert facts.memory == pytest.approx(0.95**2 / 1.95, abs=0.005)
    assert facts.momentum.gives == pytest.approx(0.95**2 / 1.95)
    assert measured(Polar, nesterov=False).memory == pytest.approx(0.95, abs=0.005)
    assert measured(Polar, power=0.5).exponent == pytest.approx(0.5, abs=0.01)
    assert facts.matrix_rule and facts.exponent == pytest.approx(0, abs=1e-3)


def test_facts_of_sgd_adam_and_lion_are_those_of_their_formulas():
    sgd = measured(torch.optim.SGD, lr=0.1, momentum=0.9)
    assert sgd.exponent == pytest.approx(1, abs=1e-4) and not sgd.matrix_rule
    assert sgd.memory == pytest.approx(0.9, abs=0.005)
    assert sgd.movements[0].first == pytest.approx(SCALE * math.sqrt(1.09), rel=0.05)
    # L2 is summed in the buffer: 1 + .9 + .81 at step 3, but for what has shrunk since
    assert sgd.decay.kind == "coupled" and sgd.decay.idle == pytest.approx(2.71, abs=0.01)
    adam = measured(torch.optim.Adam)
    assert adam.decay.kind == "coupled" and adam.movements[0].first == pytest.approx(1, rel=1e-3)
    lion = measure("lion", {})
    assert lion.memory == pytest.approx(0.9 * 0.01 / 0.1, abs=0.005)
    assert [moved.tenth for moved in lion.movements] == pytest.approx([1.0] * len(SHAPES), rel=1e-3)
    assert measure("schedule_free", {}).decay.kind == "averaged"
    cautious = measure("muon", {"decay": "cautious"})
    assert cautious.decay.kind == "partial" and cautious.decay.busy < 0.9 and kinds(cautious) == []
    assert [kinds(facts) for facts in (sgd, adam, lion)] == [[], [], []]


# A rule that multiplies by the nuclear norm, as its paper: a rate is right for one scale of the gradients.
MEANT = {"polargrad": ["exponent"]}
QUICK = ("muon", "normuon", "adamw", "lion", "htmuon", "soap", "prodigy", "schedule_free", "polargrad")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ZOO]
)
def test_rows_of_the_zoo_are_not_blamed(name):
    facts = measure(name, {})
    assert kinds(facts) == MEANT.get(name, [])
    assert None not in (facts.decay, facts.exponent, facts.matrix_rule, facts.moved_without_rate)
    assert not [moved.refused for moved in facts.movements if moved.refused]


@pytest.mark.parametrize("name", ["Muon", "AdamW", "Adagrad", "Adadelta", "ASGD", "Adafactor"])
def test_classes_of_torch_are_not_blamed(name):
    assert kinds(measured(getattr(torch.optim, name))) == []


def test_nothing_of_the_measuring_is_left():
    before = torch.random.get_rng_state()
    first, second = measured(Polar, fresh=True), measured(Polar, fresh=True)
    assert first == second and isinstance(first, Measured)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_class_that_takes_no_weight_raises_nothing():
    facts = measure_optimizer(lambda model, **settings: torch.optim.SGD(model, lr="no"))
    assert all(moved.refused for moved in facts.movements)
    assert (facts.memory, facts.decay, facts.exponent, facts.moved_without_rate) == (None,) * 4
    assert [*facts.misleading()] == []


_EMERGING = "emerging_optimizers."
PACKAGES = [
    ("pytorch_optimizer:Muon", True, {}, []),
    ("pytorch_optimizer:NorMuon", True, {}, []),
    ("pytorch_optimizer:AdamW", False, {}, []),
    ("pytorch_optimizer:Lion", False, {}, []),
    ("pytorch_optimizer:AdaGO", True, {}, ["jump", "no_rate", "exponent"]),
    ("timm.optim:Muon", True, {}, []),
    ("timm.optim:Lion", False, {}, []),
    ("lion_pytorch:Lion", False, {}, []),
    ("prodigyopt:Prodigy", False, {}, []),
    ("heavyball:AdamW", False, {}, []),
    ("heavyball:Muon", False, {}, ["memory"]),
    ("heavyball:Muon", False, {"heavyball_momentum": True}, []),
    ("heavyball:Scion", False, {}, ["jump", "no_rate"]),
    ("omnimuon:Muon", False, {}, ["schedule", "no_rate", "memory"]),
    ("optimuon:Muon", False, {"adjust_lr": "match_rms_adamw"}, ["decay"]),
    ("optimuon:Muon", False, {}, []),
    (_EMERGING + "soap:SOAP", False, {"lr": 0.003}, ["jump"]),
    (_EMERGING + "soap:SOAP", False, {"lr": 0.003, "max_update_rms": 1.0}, []),
    (_EMERGING + "orthogonalized_optimizers:Muon", False, {}, []),
]


@pytest.mark.parametrize(("name", "flagged", "settings", "said"), PACKAGES)
def test_classes_of_packages_are_blamed_where_they_mislead(name, flagged, settings, said, monkeypatch):
    module, _, own = name.partition(":")
    found = pytest.importorskip(module)
    if module == "heavyball":
        monkeypatch.setattr(importlib.import_module("heavyball.utils"), "compile_mode", None)
    assert kinds(measured(getattr(found, own), flagged, **settings)) == said
