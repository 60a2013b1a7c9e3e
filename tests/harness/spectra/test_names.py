"""Kinds and blocks by the names of our models, Hugging Face, torchvision and timm."""

import pytest

from htbench import models
from htbench.harness.spectra.names import KINDS, classify, number_blocks, order_names, strip_wrappers

NAMES = {
    # ours
    "layers.3.self_attn.k_proj.weight": ("k", 3),
    "blocks.1.attn.qkv.weight": ("qkv", 1),
    "blocks.1.attn.proj.weight": ("o", 1),
    "blocks.0.mlp.0.weight": ("up", 0),
    "blocks.0.mlp.2.weight": ("down", 0),
    # LLaMA, Mixtral and GPT-2 of Hugging Face
    "model.layers.11.self_attn.o_proj.weight": ("o", 11),
    "model.layers.0.mlp.gate_proj.weight": ("gate", 0),
    "model.layers.0.mlp.up_proj.weight": ("up", 0),
    "model.layers.0.mlp.down_proj.weight": ("down", 0),
    "model.layers.2.block_sparse_moe.experts.7.w2.weight": ("down", 2),
    "model.layers.2.block_sparse_moe.gate.weight": ("other", 2),
    "model.embed_tokens.weight": ("embed", None),
    "lm_head.weight": ("head", None),
    "transformer.h.4.attn.c_attn.weight": ("qkv", 4),
    "transformer.h.4.attn.c_proj.weight": ("o", 4),
    "h.4.mlp.c_fc.weight": ("up", 4),
    "h.4.mlp.c_proj.weight": ("down", 4),
    "wpe.weight": ("embed", None),
    # LLaMA of Meta, GPT-NeoX, T5, BERT and ViT of Hugging Face
    "layers.5.attention.wq.weight": ("q", 5),
    "layers.5.attention.wo.weight": ("o", 5),
    "layers.5.feed_forward.w1.weight": ("gate", 5),
    "tok_embeddings.weight": ("embed", None),
    "gpt_neox.layers.0.attention.query_key_value.weight": ("qkv", 0),
    "gpt_neox.layers.0.attention.dense.weight": ("o", 0),
    "gpt_neox.layers.0.mlp.dense_4h_to_h.weight": ("down", 0),
    "embed_out.weight": ("head", None),
    "encoder.block.1.layer.0.SelfAttention.q.weight": ("q", 1),
    "encoder.block.1.layer.0.SelfAttention.o.weight": ("o", 1),
    "encoder.block.1.layer.1.DenseReluDense.wo.weight": ("down", 1),
    "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": ("embed", 0),
    "bert.encoder.layer.9.attention.self.query.weight": ("q", 9),
    "bert.encoder.layer.9.attention.output.dense.weight": ("o", 9),
    "vit.encoder.layer.9.intermediate.dense.weight": ("up", 9),
    "vit.encoder.layer.9.output.dense.weight": ("down", 9),
    "vit.embeddings.position_embeddings": ("embed", None),
    "bert.pooler.dense.weight": ("other", None),
    # timm and torchvision
    "blocks.7.mlp.fc1.weight": ("up", 7),
    "pos_embed": ("embed", None),
    "encoder.layers.encoder_layer_2.self_attention.in_proj_weight": ("qkv", 2),
    "encoder.layers.encoder_layer_2.mlp.3.weight": ("down", 2),
    "fc.weight": ("head", None),
    "classifier.6.weight": ("head", None),
    # by its shape: a table
    "tokens.weight": ("embed", None),
    "layers.0.adapter.weight": ("other", 0),
}
SHAPES = {"tokens.weight": (320, 40), "layers.0.adapter.weight": (320, 8)}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_kind_and_block(name):
    shape = SHAPES.get(name, (64, 64))
    assert (classify(name, shape), number_blocks([name])[name]) == NAMES[name]


def test_kernels_are_conv_wherever_they_are():
    for name in ("stem.0.0.weight", "layer1.0.conv2.weight", "patch_embed.proj.weight", "patches.weight"):
        assert classify(name, (8, 3, 4, 4)) == "conv"
    assert classify("conv1d.weight", (8, 1, 4)) == "conv"
    assert classify("experts.down_proj", (4, 8, 8)) == "down"


def test_blocks_in_stages_are_counted_through():
    torchvision = ["conv1.weight", "layer1.0.conv1.weight", "layer1.1.conv2.weight", "layer2.0.conv1.weight"]
    assert list(number_blocks(torchvision).values()) == [None, 0, 1, 2]
    place = "resnet.encoder.stages.{}.layers.{}.layer.0.convolution.weight"
    hugging_face = [place.format(stage, block) for stage, block in ((0, 0), (0, 1), (1, 0), (1, 10), (1, 9))]
    assert list(number_blocks(hugging_face).values()) == [0, 1, 2, 4, 3]
    ours = [name for name in models.build("resnet18").state_dict() if name.endswith("residual.0.0.weight")]
    assert list(number_blocks(ours).values()) == list(range(8))


@pytest.mark.parametrize("model", ["llama-nano", "gpt2-nano", "vit-nano", "resnet-nano"])
def test_every_matrix_of_our_models_has_a_kind(model):
    state = models.build(model).state_dict()
    kinds = {name: classify(name, tuple(W.shape)) for name, W in state.items() if W.ndim >= 2}
    assert set(kinds.values()) <= set(KINDS) - {"other"}


def test_a_file_is_read_from_the_input_to_the_output():
    names = [
        "lm_head.weight",
        "model.layers.0.mlp.down_proj.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.10.self_attn.q_proj.weight",
        "model.layers.2.self_attn.q_proj.weight",
        "model.embed_tokens.weight",
        "model.norm.weight",
    ]
    found = order_names(dict.fromkeys(names, (64, 64)) | {"model.norm.weight": (64,)})
    assert [name for name in found if "norm" not in name] == [names[i] for i in (5, 2, 1, 4, 3, 0)]


def test_wrappers_are_taken_off():
    assert strip_wrappers("module._orig_mod.fc.weight") == "fc.weight"
    assert strip_wrappers("my_module.fc.weight") == "my_module.fc.weight"
    assert strip_wrappers("not_orig_mod.fc.weight") == "not_orig_mod.fc.weight"
