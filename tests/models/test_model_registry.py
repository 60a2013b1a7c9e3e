"""The table of models: names, sizes, errors, and that reading it costs no torch."""

import subprocess
import sys

import pytest
import torch

from htbench import models, optimizers

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


OF_A_HUNDRED_CLASSES = {"resnet18": 11_220_132, "resnet50": 23_705_252}


def test_sizes_have_exactly_the_known_number_of_parameters():
    assert {name: models.count_parameters(name) for name in PARAMETERS} == PARAMETERS
    found = {name: models.count_parameters(name, classes=100) for name in OF_A_HUNDRED_CLASSES}
    assert found == OF_A_HUNDRED_CLASSES


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


@pytest.mark.parametrize("name", ["llama-nano", "gpt2-nano", "vit-nano", "resnet-nano"])
def test_a_bfloat16_model_computes_in_bfloat16(name):
    sides = {"vit-nano": (1, 16, 16), "resnet-nano": (1, 8, 8)}
    inputs = torch.zeros(2, *sides[name]) if name in sides else torch.zeros(2, 4, dtype=torch.int64)
    logits = models.build(name).bfloat16()(inputs)
    assert logits.dtype == torch.bfloat16 and logits.isfinite().all()


@pytest.mark.parametrize(
    ("name", "others"), [("gpt2-nano", set()), ("vit-nano", {"patches.weight"}), ("modded-gpt-nano", set())]
)
def test_hidden_routing_takes_the_matrices_of_the_blocks(name, others):
    """GPT-2's head is tied; embeddings and positions are left out, too."""
    model = models.build(name)
    chosen, rest = optimizers.split_parameters(model, "hidden")
    names = {p: name for name, p in model.named_parameters()}
    blocks = {name for p, name in names.items() if name.startswith("blocks.") and p.ndim == 2}
    assert {names[p] for p in chosen} == blocks | others and len(blocks) >= 8
    assert len(chosen) + len(rest) == len(names)
