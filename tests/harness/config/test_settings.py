"""Settings: coercion, defaults, and one clear sentence for every mistake."""

import dataclasses
import re

import pytest

from htbench import optimizers
from htbench.harness.config.key import run_key
from htbench.harness.config.names import settings_of
from htbench.harness.config.settings import FIELDS, params_of, resolve_config, to_settings
from htbench.harness.config.yaml_text import read_words, read_yaml
from htbench.harness.errors import UsageError


def test_every_default_is_written_in(tiny):
    config = resolve_config(
        {"task": "digits", "model": "resnet-nano", "steps": 3, "optimizer.name": "htmuon"}
    )
    rule = config.optimizer
    assert (rule.lr, rule.weight_decay, rule.hyper["p"], rule.hyper["momentum"]) == (0.03, 0.1, 0.125, 0.95)
    assert rule.aux_lr == 3e-2, "the task's AdamW rate"
    assert config.data_fingerprint and config.seq_len is None
    # Without an auxiliary optimizer its rate must not split the key.
    assert resolve_config(tiny).optimizer.aux_lr is None


def test_numbers_are_normalised_before_the_key(tiny):
    keys = {
        run_key(resolve_config(tiny | {"optimizer.lr": lr, "grad_clip": clip}))
        for lr, clip in [(1, 2), ("1e0", 2.0), (1.0, "2")]
    }
    assert len(keys) == 1


def test_words_are_read_as_yaml():
    assert read_words(["optimizer.lr=1e-3", "evaluation.untrained=true", "replica=a100"]) == {
        "optimizer.lr": 0.001,
        "evaluation.untrained": True,
        "replica": "a100",
    }


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"optimizer.name": "htmuno"}, "htmuno.*htmuon"),
        ({"optmizer.lr": 0.1}, r"'optmizer.lr'.*did you mean 'optimizer.lr'"),
        ({"optimizer.momentun": 0.1}, r"'optimizer.momentun' for sgdm.*'momentum'"),
        ({"optimizer.lr": "abc"}, r"optimizer\.lr.*'abc'"),
        ({"optimizer.lr": -0.1}, r"optimizer\.lr.*-0\.1"),
        ({"optimizer.lr": 0}, r"optimizer\.lr"),
        ({"optimizer.lr": [0.1, 0.2]}, r"optimizer\.lr.*\[0\.1, 0\.2\]"),
        ({"optimizer.lr": float("nan")}, r"optimizer\.lr.*nan"),
        ({"optimizer.name": "htmuon", "optimizer.p": 1.5}, r"p .*1\.5"),
        ({"optimizer.name": "htmuon", "optimizer.p": -0.6}, r"p .*-0\.6"),
        ({"task": "digit"}, "digit.*digits"),
        ({"model": "resnet-pico"}, "resnet-pico.*resnet-nano"),
        ({"model": "llama-nano"}, "'llama-nano' does not fit the task 'digits'.*resnet-nano"),
        ({"steps": None}, "steps or as epochs.*neither"),
        ({"epochs": 2}, "steps or as epochs.*both"),
        ({"steps": 0}, "steps.*0"),
        ({"steps": 2.5}, r"steps.*2\.5"),
        ({"batch_size": None}, "batch_size"),
        ({"seq_len": 8}, "has no sequences"),
        ({"micro_batch": 3}, "micro_batch=3 must divide batch_size=16"),
        ({"schedule.name": "cosin"}, "schedule.name.*cosin"),
        ({"precision.params": "float16"}, "precision.params.*float16"),
        ({"seed": -1}, "seed.*-1"),
        ({"optimizer.routing": "all"}, "optimizer.routing.*all"),
        ({"layout": "packed"}, "The task 'digits' has no layout; remove layout=packed"),
        ({"layout": "dense"}, "layout.*padded, packed"),
        ({"augment": "flip"}, "augment.*crop-flip"),
        ({"mixup": 0.2}, "'digits' has no mixup"),
        ({"held_out_tokens": 100}, "'digits' has no held_out_tokens"),
        ({"dropout": 0.1}, "'resnet-nano' has no dropout"),
        ({"dropout": 1.0}, "dropout.*1.0"),
        ({"activation_checkpointing": True}, "'resnet-nano' can't.*batch statistics"),
        ({"task": "pydocs", "model": "llama-nano", "sync_batch_norm": True}, "'llama-nano'.*no BatchNorm"),
    ],
    ids=str,
)
def test_a_mistake_is_one_sentence(tiny, change, sentence):
    with pytest.raises(UsageError) as error:
        resolve_config(tiny | change)
    assert re.search(sentence, str(error.value)) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("a: [1", "not valid YAML"), ("- 1\n- 2\n", "must hold a mapping"), ("a: ${b}\n", "not valid YAML")],
)
def test_a_bad_file_is_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=sentence) as error:
        read_yaml(path)
    assert "\n" not in str(error.value) and "bad.yaml" in str(error.value)


def test_every_field_is_described():
    assert all(param.help for param in FIELDS.values())


def test_replacing_a_field_that_may_not_matter_keeps_the_key(tiny):
    config = resolve_config(tiny)
    for name, value in {"device": "cpu", "threads": 2, "log_every": 3, "compile": True}.items():
        assert run_key(dataclasses.replace(config, **{name: value})) == run_key(config)
    for name, value in {"seed": 1, "data_seed": 1, "replica": "x", "protocol": "paper", "steps": 9}.items():
        assert run_key(dataclasses.replace(config, **{name: value})) != run_key(config)


def test_what_means_nothing_to_a_task_does_not_split_the_key(tiny):
    nothing = {"augment": "none", "mixup": 0.0, "sync_batch_norm": True, "dropout": 0.0}
    assert run_key(resolve_config(tiny | nothing)) == run_key(resolve_config(tiny))


def test_routing_does_not_split_the_key_of_an_optimizer_with_one_rule(tiny):
    assert run_key(resolve_config(tiny | {"optimizer.routing": "hidden"})) == run_key(resolve_config(tiny))
    htmuon = tiny | {"optimizer.name": "htmuon"}
    assert run_key(resolve_config(htmuon | {"optimizer.routing": "hidden"})) != run_key(
        resolve_config(htmuon)
    )


# --- names and declarations ---


def test_a_record_has_the_settings_of_its_config(tiny):
    config = resolve_config(tiny | {"optimizer.name": "htmuon", "optimizer.p": 0.2})
    nested = dataclasses.asdict(config)
    assert settings_of(nested) == to_settings(config)
    assert to_settings(config)["optimizer.p"] == 0.2 and "optimizer.hyper.p" not in to_settings(config)
    assert resolve_config(to_settings(config)) == config


def test_every_setting_of_a_run_has_one_declaration(tiny):
    row = optimizers.spec("htmuon")
    params = params_of(row)
    assert params["optimizer.p"] is row.params["p"] and params["optimizer.lr"] is row.lr
    assert params["steps"] is FIELDS["steps"]
    assert to_settings(resolve_config(tiny | {"optimizer.name": "htmuon"})).keys() <= params.keys()
    assert params_of(None) == FIELDS
