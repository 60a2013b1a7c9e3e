"""Settings of named groups: resolved, in the key, stored and read again; the schedule of a group's rate."""

import pytest

from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.names import flatten
from htbench.harness.config.settings import (
    as_stored,
    is_setting,
    param_of,
    resolve_config,
    to_settings,
    to_yaml,
)
from htbench.harness.config.yaml_text import read_yaml
from htbench.harness.errors import UsageError
from htbench.harness.store import Store
from htbench.harness.train.building import rate_schedules
from htbench.harness.train.run import run

MUON = {"task": "digits", "model": "vit-nano", "steps": 4, "batch_size": 8, "optimizer.name": "muon"}
OF = "optimizer.groups"


def test_what_is_open_is_as_for_the_parameters_around_it():
    found = resolve_config(
        MUON
        | {"optimizer.aux_lr": 0.002, "optimizer.aux_betas": [0.8, 0.9], "optimizer.lr": 0.05}
        | {f"{OF}.head.weight_decay": 0.3, f"{OF}.matrices.momentum": 0.8, f"{OF}.vectors.optimizer": "sgdm"}
    ).optimizer.groups
    assert found["head"] == {
        "optimizer": "adamw", "lr": 0.002, "betas": (0.8, 0.9), "eps": 1e-10, "weight_decay": 0.3
    }  # fmt: skip
    matrices = found["matrices"]
    assert (matrices["optimizer"], matrices["lr"], matrices["momentum"]) == ("muon", 0.05, 0.8)
    assert found["vectors"]["optimizer"] == "sgdm" and "schedule" not in found["vectors"]


def test_the_key_hears_of_groups_only_where_there_are_some():
    plain, lr = resolve_config(MUON), {f"{OF}.head.lr": 0.01}
    assert plain.optimizer.groups == {}
    other = resolve_config(MUON | lr)
    assert run_key(other) != run_key(plain)
    assert run_key(other) == run_key(resolve_config(MUON | lr | {f"{OF}.head.optimizer": "adamw"}))
    assert run_key(other) == run_key(resolve_config(MUON | lr | {f"{OF}.head.betas": [0.9, 0.95]}))
    turned = [
        {f"{OF}.{name}.lr": 0.01 for name in names} for names in (("head", "vectors"), ("vectors", "head"))
    ]
    assert len({run_key(resolve_config(MUON | one)) for one in turned}) == 1


def test_a_config_with_groups_is_stored_and_read_again(tmp_path):
    made = resolve_config(MUON | {f"{OF}.mlp.*.w*.optimizer": "muon", f"{OF}.head.schedule": "wsd"})
    assert set(made.optimizer.groups) == {"mlp.*.w*", "head"}
    assert as_stored(to_settings(made)) == made
    (tmp_path / "config.yaml").write_text(to_yaml(made))
    assert resolve_config(flatten(read_yaml(tmp_path / "config.yaml"))) == made
    assert resolved(made).key == run_key(made)


def test_a_schedule_of_a_group_takes_what_it_does_not_say_from_the_run():
    made = resolve_config(
        MUON
        | {
            "schedule.floor": 0.3,
            f"{OF}.head.schedule": "wsd",
            f"{OF}.head.decay": 0.5,
            f"{OF}.vectors.lr": 1,
        }
    )
    own = rate_schedules(made)
    assert own[None] == made.schedule == own["vectors"]
    assert (own["head"].name, own["head"].decay, own["head"].floor) == ("wsd", 0.5, 0.3)
    constant = [
        resolve_config(MUON | {f"{OF}.head.schedule": "constant", f"{OF}.head.floor": floor})
        for floor in (0, 0.5)
    ]
    assert len(set(map(run_key, constant))) == 1, "a constant rate has no floor"


def test_groups_are_settings_of_sweeps():
    assert is_setting(f"{OF}.head.lr") and is_setting(f"{OF}.*.w*.betas") and not is_setting(f"{OF}.head")
    assert param_of("muon", f"{OF}.head.lr").type is float
    assert param_of("muon", f"{OF}.head.schedule").choices


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("heads.lr", 0.1, "there is no group 'heads'"),
        ("head.lr", -1, "groups.head.lr must be a finite number > 0, got -1"),
        ("head.schedule", "cosin", "optimizer.groups.head.schedule must be one of cosine"),
        ("head.floor", 2, "optimizer.groups.head.floor must be a finite number in [0, 1], got 2"),
        ("head.optimizer", "my:Own", "there is no module 'my'"),
    ],
)
def test_what_is_wrong_is_one_sentence(name, value, sentence):
    with pytest.raises(UsageError) as caught:
        resolve_config(MUON | {f"{OF}.{name}": value})
    assert sentence in str(caught.value)


def test_a_run_whose_model_has_no_such_parameter_says_so(tmp_path):
    with pytest.raises(
        UsageError, match="vit-nano' doesn't fit optimizer.groups: no parameter is in the group 'mlp"
    ):
        run(resolved(resolve_config(MUON | {f"{OF}.mlp9*.optimizer": "muon"})), Store(tmp_path))


def test_a_run_whose_groups_leave_all_open_has_the_numbers_of_one_without(tmp_path):
    hidden = MUON | {"optimizer.routing": "hidden"}
    records = [
        run(resolved(resolve_config(hidden | groups)), Store(tmp_path))
        for groups in ({}, {f"{OF}.vectors.optimizer": "adamw"}, {f"{OF}.vectors.schedule": "constant"})
    ]
    assert len({record.key for record in records}) == 3
    plain, same, other = (record.metrics for record in records)
    assert plain == same != other
