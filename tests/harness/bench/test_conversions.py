"""What equals a class of another package: the table is held against them, and `zoo --convert` reads it."""

import math

import pytest

from benchmarks import paths
from htbench.harness.bench.conversions import conversions, convert
from htbench.harness.cli import main
from htbench.harness.errors import UsageError
from htbench.optimizers import ZOO
from htbench.optimizers.zoo.registry import resolve
from tests.helpers.json_fields import promised, read

ROWS = conversions()
HERE = [row for row in ROWS if paths.installed(row)]  # those of torch, and what `.[peers]` brings
OTHERS = {"momentum": 0.8, "nesterov": False, "ns_steps": 3, "betas": (0.8, 0.9), "beta2": 0.8, "eps": 1e-3}


def label(row):
    return f"{row.name} {dict(row.theirs)}"


def test_each_row_has_settings_of_ours_and_a_sentence_for_its_obstacle():
    assert len({(label(row), row.row, str(row.ours), row.rate) for row in ROWS}) == len(ROWS) > 20
    for row in ROWS:
        resolve(row.row, {key: x for key, x in row.ours.items() if key != "weight_decay"})
        assert {*row.carried.values()} - {"lr"} <= ZOO[row.row].params.keys()
        assert row.factor(64, 32) > 0


def must_hold(row, apart):
    if row.obstacle:  # else the table would refuse what is equal
        assert apart > row.difference / 2
    else:
        assert apart <= 3 * row.difference + 1e-9


@pytest.mark.parametrize("row", HERE, ids=label)
def test_the_paths_are_as_far_apart_as_the_table_says(row):
    must_hold(row, paths.difference(row, paths.SHAPES[:2]))


@pytest.mark.slow
@pytest.mark.parametrize("row", HERE, ids=label)
def test_they_are_so_on_all_three_shapes(row):
    must_hold(row, paths.difference(row))


@pytest.mark.parametrize("row", [row for row in HERE if not row.obstacle], ids=label)
def test_settings_that_both_have_keep_them_together(row):
    names = [ours for ours in row.carried.values() if ours in OTHERS]
    betas = ZOO[row.row].params.get("betas")
    values = {name: OTHERS[name] for name in names}
    if betas is not None and "betas" in values:
        values["betas"] = (0.8, 0.9)[: len(betas.default)]
    must_hold(row, paths.difference(row, paths.SHAPES[:1], values))


def test_a_path_at_another_rate_is_far_apart():
    row = next(row for row in ROWS if row.name == "torch.optim:Muon")
    assert paths.difference(row, paths.SHAPES[:1], {"ns_steps": 3}) < 1e-5
    other = next(row for row in ROWS if row.theirs == {"adjust_lr_fn": "match_rms_adamw"})
    wrong = type(row)(**{**vars(row), "ours": other.ours})
    assert paths.difference(wrong, paths.SHAPES[:1]) > 0.5


# --- the command ---


def answer(capsys, *words):
    assert main(["zoo", "--convert", *words, "--json"]) == 0
    found = read(capsys.readouterr().out)
    promised("zoo --convert", found)
    return found


def test_a_rate_of_torch_is_ours_and_back(capsys):
    there = [
        "torch.optim:Muon",
        "lr=0.02",
        "weight_decay=0.3",
        "momentum=0.9",
        "adjust_lr_fn=match_rms_adamw",
    ]
    [found] = answer(capsys, *there, "--to", "muon")
    assert found["settings"] == {"scale_rule": "rms0.2", "momentum": 0.9}
    assert found["rates"] == [{"shape": [], "matrices": None, "lr": 0.02, "weight_decay": 0.3}]
    [back] = answer(capsys, "muon", "lr=0.02", "scale_rule=rms0.2", "--to", "torch.optim:Muon")
    assert back["settings"] == {"adjust_lr_fn": "match_rms_adamw"}
    assert back["rates"][0]["weight_decay"] == ZOO["muon"].weight_decay.default


EMERGING = "emerging_optimizers.orthogonalized_optimizers:Muon"


def test_a_factor_by_shape_gives_each_matrix_its_rate(capsys):
    words = ["muon", "lr=0.02", "weight_decay=0.1", "ns_dtype=float32", "nesterov=true"]
    found = [answer(capsys, *words, "--to", EMERGING, *more)[0] for more in ([], ["--model", "llama-nano"])]
    assert found[0]["settings"]["scale_mode"] == "shape_scaling" and len(found[0]["rates"]) == 1
    assert sum(one["matrices"] for one in found[1]["rates"]) > 4
    assert (
        answer(capsys, *words, "scale_rule=rms0.2", "--to", "keras.optimizers:Muon")[0]["rate_name"]
        == "learning_rate"
    )
    needs = ["omnimuon:Muon", "matrix_lr=0.02", "nesterov=False", "weight_decay=0", "--to", "muon"]
    assert answer(capsys, "muon", "lr=0.02", "--to", "keras.optimizers:Muon") == []
    rates = {tuple(one["shape"]): one["lr"] for one in answer(capsys, *needs)[0]["rates"]}
    assert rates[256, 128] == pytest.approx(0.02 / math.sqrt(2)) and rates[128, 256] == 0.02


def test_a_constant_factor_divides_rate_and_multiplies_decay(capsys):
    words = ["nesterov=True", "coefficient_type=simple", "fp32_matmul_prec=highest"]
    [found] = answer(capsys, EMERGING, "lr=0.01", "weight_decay=0.1", *words, "--to", "muon")
    assert found["rates"] == [
        {"shape": [], "matrices": None, "lr": 0.05, "weight_decay": pytest.approx(0.02)}
    ]


def test_what_nothing_equals_has_a_reason(capsys):
    words = ["zoo", "--convert", "adamuon", "lr=0.01", "--to", "pytorch_optimizer:AdaMuon"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "the sign of it" in out and "sign=false" in out
    assert answer(capsys, *words[2:])[0]["rates"] == []
    assert answer(capsys, "torch.optim:Muon", "lr=0.1", "eps=1e-3", "--to", "muon") == []
    assert main(["zoo", "--convert", "torch.optim:Muon", "lr=0.1", "eps=1e-3", "--to", "muon"]) == 0
    out = capsys.readouterr().out
    assert "scale_rule" in out and "was not run" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["torch.optim:Muno", "lr=1", "--to", "muon"], "did you mean torch.optim:Muon"),
        (["torch.optim:Muon", "lr=1", "--to", "lion"], "it was beside muon"),
        (["torch.optim:Muon", "--to", "muon"], "give the lr"),
        (["torch.optim:Muon", "lr=big", "--to", "muon"], "lr=big is no number"),
        (["muon", "lr=1", "scale=2", "--to", "torch.optim:Muon"], "no hyperparameter 'scale'"),
        (["torch.optim:Muon", "lr=1"], "--to"),
        (["torch.optim:Muon", "lr=1", "--to", "muon", "--model", "lama"], "llama"),
    ],
)
def test_what_it_does_not_understand_is_one_sentence(words, said, capsys):
    assert main(["zoo", "--convert", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and said in err


def test_defaults_of_ours_that_are_others_there_are_told():
    (fact,) = convert(["adamw", "lr=0.001"], "optimi:AdamW").data
    assert fact.settings == {"betas": (0.9, 0.999), "eps": 1e-8}


def test_a_setting_that_ours_can_not_have_is_refused():
    with pytest.raises(UsageError, match="momentum"):
        convert(["torch.optim:Muon", "lr=0.02", "momentum=2"], "muon")
    with pytest.raises(UsageError, match="was not run with 'momentun'; did you mean momentum?"):
        convert(["torch.optim:Muon", "lr=0.02", "momentun=0.9"], "muon")
