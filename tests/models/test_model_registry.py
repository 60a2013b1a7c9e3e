"""The table of models: names, sizes, errors, and that reading it costs no torch."""

import subprocess
import sys

import pytest
import torch

from htbench import models

# LLaMA: 2 V D + layers (4 D D + 3 D F + 2 D) + D, which also gives the "58M", "134M", "368M", "1.3B" of the
# released configurations. ResNet: the figures commonly quoted for the CIFAR form with ten classes. GPT-2: of
# the Hugging Face model, the tied matrix counted once. ViT: of timm's `vit_tiny_patch16_224`. Track 3: of the
# original program's model.
PARAMETERS = {
    "llama-s1": 45_344,
    "llama-s2": 114_000,
    "llama-s3": 238_400,
    "llama-s4": 615_456,
    "llama-s5": 3_665_088,
    "llama-60m": 58_073_600,
    "llama-135m": 134_105_856,
    "llama-350m": 367_969_280,
    "llama-1b": 1_339_082_752,
    "resnet18": 11_173_962,
    "resnet50": 23_520_842,
    "gpt2-small": 124_439_808,
    "vit-tiny": 5_717_416,
    "modded-gpt-small": 162_354_816,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_sizes_have_exactly_the_known_number_of_parameters(name):
    assert models.count_parameters(name) == PARAMETERS[name]


@pytest.mark.parametrize(("name", "count"), [("resnet18", 11_220_132), ("resnet50", 23_705_252)])
def test_residual_networks_with_a_hundred_classes(name, count):
    assert models.count_parameters(name, classes=100) == count


@pytest.mark.parametrize("name", [name for name in models.SIZES if name.startswith("llama")])
def test_llama_sizes_follow_the_formula(name):
    s = models.spec(name).settings
    D, F, V = s["hidden"], s["intermediate"], s["vocabulary"]
    assert models.count_parameters(name) == 2 * V * D + s["layers"] * (4 * D * D + 3 * D * F + 2 * D) + D


@pytest.mark.parametrize("name", models.SIZES)
def test_every_row_builds_and_names_its_output_layer(name):
    with torch.device("meta"):
        model = models.build(name)
    output = model.get_output_embeddings()
    size = models.spec(name).settings["vocabulary" if models.spec(name).kind == "lm" else "classes"]
    assert output.out_features == size
    assert any(module is output for module in model.modules())
    has_batch_norm = any(isinstance(module, torch.nn.BatchNorm2d) for module in model.modules())
    assert has_batch_norm == models.spec(name).batch_norm


def test_overrides_replace_settings():
    assert models.build("llama-nano", vocabulary=77).lm_head.out_features == 77
    assert models.build("resnet-nano", classes=7, in_channels=3).fc.out_features == 7


def test_unknown_names_and_settings_say_what_would_be_right():
    with pytest.raises(ValueError, match="'llama-60'.*llama-60m"):
        models.build("llama-60")
    with pytest.raises(ValueError, match="'zzz'.*resnet18"):
        models.spec("zzz")
    with pytest.raises(ValueError, match="'classes'.*vocabulary"):
        models.build("llama-nano", classes=10)


def test_the_global_seed_decides_the_initial_weights():
    def weights(seed):
        torch.manual_seed(seed)
        return torch.nn.utils.parameters_to_vector(models.build("resnet-nano").parameters())

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))


def test_reading_the_table_imports_no_torch():
    code = "import sys, models; models.spec('resnet18'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
