"""Our models compute what those of `transformers` do from the same weights."""

import pytest
import torch
import transformers
from torch.nn.functional import cross_entropy

from htbench import models
from htbench.harness.data.task import IGNORED
from htbench.models.families import family

SIZES = {
    "llama-nano": {"vocabulary": 101, "hidden": 48, "heads": 3, "max_length": 24},
    "gpt2-nano": {"vocabulary": 101, "hidden": 48, "heads": 3, "max_length": 24},
}


def spread(model):
    """Weights large enough for every nonlinearity to matter."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3 if parameter.ndim > 1 else 0.5)
    return model


def twin(name, ours, settings):
    """The counterpart with a copy of our weights, without a cache and without words that we lack."""
    row = family(name)
    described = row.config(settings)
    del described["model_type"]  # of the class
    cls = getattr(transformers, row.architecture)
    without = {"use_cache": False, "bos_token_id": None, "eos_token_id": None}
    config = cls.config_class(**described, **without, attn_implementation="sdpa", loss_type="ForCausalLM")
    theirs = cls(config)
    theirs.load_state_dict(row.weights(ours.state_dict()))
    return theirs


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", SIZES)
def test_logits_loss_and_gradients_are_theirs(name, training):
    torch.manual_seed(0)
    ours = spread(models.build(name, **SIZES[name])).train(training)
    theirs = twin(name, ours, {**models.spec(name).settings, **SIZES[name]}).train(training)
    tokens = torch.randint(101, (3, 25))
    inputs, targets = tokens[:, :-1], tokens[:, 1:].clone()
    targets[0, 7:] = IGNORED
    logits = ours(inputs)
    loss = cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
    found = theirs(inputs, labels=targets, shift_labels=targets)
    torch.testing.assert_close(logits, found.logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(loss, found.loss, rtol=1e-5, atol=1e-5)
    loss.backward()
    found.loss.backward()
    theirs_norm = torch.nn.utils.get_total_norm([p.grad for p in theirs.parameters()])
    ours_norm = torch.nn.utils.get_total_norm([p.grad for p in ours.parameters()])
    torch.testing.assert_close(ours_norm, theirs_norm, rtol=1e-5, atol=0)


def vit_twin(ours, settings):
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=settings["hidden"],
        intermediate_size=settings["intermediate"],
        num_attention_heads=settings["heads"],
        num_hidden_layers=settings["layers"],
        image_size=settings["image_size"],
        patch_size=settings["patch"],
        num_channels=settings["in_channels"],
        num_labels=settings["classes"],
        layer_norm_eps=1e-6,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    theirs = ViTForImageClassification(config)
    mine = ours.state_dict()
    weights = {}
    for name, slot in theirs.state_dict().items():
        weights[name] = mine[ours_of(name)]
        if any(f".{part}_proj." in name for part in "qkv"):
            weights[name] = weights[name].chunk(3)["qkv".index(name.split("_proj.")[0][-1])]
        weights[name] = weights[name].view(slot.shape)
    theirs.load_state_dict(weights)
    return theirs


OURS_OF = {
    "vit.embeddings.cls_token": "class_token",
    "vit.embeddings.position_embeddings": "positions.weight",
    "vit.embeddings.patch_embeddings.projection": "patches",
    "vit.layernorm": "norm",
    "classifier": "head",
}
OURS_OF_LAYER = {
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
    "attention.o_proj": "attn.proj",
    "attention": "attn.qkv",
    "mlp.fc1": "mlp.0",
    "mlp.fc2": "mlp.2",
}


def ours_of(name):
    for theirs, ours in OURS_OF.items():
        if name.startswith(theirs):
            return name.replace(theirs, ours)
    _, _, number, rest = name.split(".", 3)
    part = next(part for part in OURS_OF_LAYER if rest.startswith(part))
    return f"blocks.{number}.{OURS_OF_LAYER[part]}.{rest.rpartition('.')[2]}"


def test_the_vision_transformer_is_theirs():
    torch.manual_seed(0)
    ours = spread(models.build("vit-nano", classes=7)).eval()
    theirs = vit_twin(ours, {**models.spec("vit-nano").settings, "classes": 7}).eval()
    images = torch.randn(3, 1, 16, 16)
    torch.testing.assert_close(ours(images), theirs(images).logits, rtol=1e-5, atol=1e-5)
