"""The table: coercion, ranges, and one sentence for everything that is wrong."""

import math
import pickle

import pytest
import torch

from htbench import optimizers
from htbench.optimizers import ZOO, Param, resolve, resolve_value, spec

UNIT = Param(float, 0.5, low=0, high=1, high_open=True)
COUNT = Param(int, 5, low=1)
FLAG = Param(bool, False)
WORD = Param(str, "a", choices=("a", "b"))
PAIR = Param(tuple, (0.9, 0.95), low=0, high=1, high_open=True)
OPTIONAL = Param(float, None, low=0)


@pytest.mark.parametrize("name", [name for name, row in ZOO.items() if row.target.startswith("htbench.")])
def test_every_rule_can_be_imported_as_a_class_with_the_defaults_of_its_row(name: str) -> None:
    net = torch.nn.Linear(4, 6, bias=False)
    built = optimizers.build(name, net, routing="matrix")
    [rule] = built.parts if isinstance(built, optimizers.Hybrid) else [built]
    public = [getattr(optimizers, name) for name in optimizers.__all__ if "Rule" not in name]
    same = [one for one in public if isinstance(one, type) and issubclass(one, type(rule))]
    alone = [one(net.parameters()) for one in same]
    defaults = {key: x for key, x in built.param_groups[0].items() if key in rule.defaults}
    assert any(one.defaults == defaults for one in alone)
    copies = [pickle.loads(pickle.dumps(one)) for one in alone]
    assert [type(one) for one in copies] == same


def test_a_class_of_a_row_takes_settings_as_the_class_behind_it() -> None:
    W = torch.nn.Parameter(torch.ones(3, 2))
    given = optimizers.HTMuon([W], 0.5, p=0.25).param_groups[0]
    assert (given["lr"], given["p"], given["spectral"]) == (0.5, 0.25, "gram_power")
    with pytest.raises(ValueError, match="p must be"):
        optimizers.HTMuon([W], p=2)


@pytest.mark.parametrize(
    ("param", "value", "expected"),
    [
        (UNIT, "1e-3", 0.001),
        (COUNT, 5.0, 5),
        (FLAG, "true", True),
        (FLAG, True, True),
        (WORD, "b", "b"),
        (PAIR, [0, 0.5], (0.0, 0.5)),
        (PAIR, "[0.1, 0.2]", (0.1, 0.2)),
        (OPTIONAL, None, None),
    ],
)
def test_coercion(param: Param, value: object, expected: object) -> None:
    found = resolve_value(param, "x", value)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("param", "value", "message"),
    [
        (UNIT, 1.0, "x must be a finite number in [0, 1), got 1.0"),
        (UNIT, math.nan, "x must be a finite number in [0, 1), got nan"),
        (UNIT, True, "x must be a finite number in [0, 1), got True"),
        (UNIT, "fast", "x must be a finite number in [0, 1), got 'fast'"),
        (COUNT, 2.5, "x must be a whole number >= 1, got 2.5"),
        (COUNT, 0, "x must be a whole number >= 1, got 0"),
        (FLAG, "yes", "x must be true or false, got 'yes'"),
        (WORD, "c", "x must be one of a, b, got 'c'"),
        (PAIR, [0.9, 1], "x must be 2 numbers in [0, 1), got [0.9, 1]"),
        (OPTIONAL, -1, "x must be a finite number >= 0 or null, got -1"),
        (Param(float, 1.0, low=0, low_open=True), 0, "x must be a finite number > 0, got 0"),
        (Param(float, 1.0, high=2), 3, "x must be a finite number <= 2, got 3"),
        (Param(float, 1.0, high=2, high_open=True), 2, "x must be a finite number < 2, got 2"),
        (Param(str, "a"), 2, "x must be a word, got 2"),
    ],
)
def test_refusal(param: Param, value: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        resolve_value(param, "x", value)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ZOO)
def test_defaults_are_allowed_and_complete(name: str) -> None:
    row = ZOO[name]
    resolved = resolve(name, {})
    assert resolved == {key: param.default for key, param in row.params.items()}
    assert list(resolved) == sorted(resolved)
    assert resolve(name, resolved) == resolved
    for key in ("lr", "weight_decay"):
        param = getattr(row, key)
        assert resolve_value(param, key, param.default) == param.default
        with pytest.raises(ValueError):
            resolve_value(param, key, -1)
    assert row.name == name and row.paper and row.url.startswith("https://")


def test_resolve_coerces_what_it_is_given() -> None:
    assert resolve("htmuon", {"p": "0.25", "nesterov": "false"}) == {
        **resolve("htmuon", {}),
        "p": 0.25,
        "nesterov": False,
    }


def test_unknown_names_come_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="^unknown optimizer 'htmuo'; did you mean htmuon or "):
        spec("htmuo")
    with pytest.raises(ValueError, match=r"^muon has no hyperparameter 'momentm'; did you mean momentum\?$"):
        resolve("muon", {"momentm": 0.9})
    with pytest.raises(ValueError, match="^sgdm has no hyperparameter 'zzz'; known are momentum, nesterov$"):
        resolve("sgdm", {"zzz": 1})
    with pytest.raises(ValueError, match="^muon_svd has no hyperparameter 'p'"):  # which its row pins
        resolve("muon_svd", {"p": 0.5})


def test_a_wrong_name_on_the_package_is_an_attribute_error() -> None:
    with pytest.raises(ImportError):
        from htbench.optimizers import Muom  # noqa: F401
