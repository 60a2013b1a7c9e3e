"""Spectra of weights: their properties, the pitfalls of other programs, and summaries."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from htbench import models
from htbench.harness.spectra.esd import esd, matrices, singular_values
from htbench.harness.spectra.layers import layer_names, measure, random_alpha
from htbench.harness.spectra.report import summarize
from htbench.harness.spectra.tail import METHODS, fit_alpha
from tests.helpers.spectra import layer_table

torch.set_num_threads(1)

shapes = st.tuples(st.integers(1, 24), st.integers(1, 24))
seeds = st.integers(0, 2**32 - 1)


def gaussian(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def orthogonal(n, seed=0, dtype=torch.float32):
    return torch.linalg.qr(gaussian(n, n, seed=seed, dtype=torch.float64)).Q.to(dtype)


def one(weight, **options):
    (found,) = measure({"blocks.0.fc1.weight": weight}, **options)
    return found


# --- the spectrum ---


@given(shapes, seeds)
def test_the_spectrum_is_that_of_the_svd(shape, seed):
    W = gaussian(*shape, seed=seed)
    sigma = np.linalg.svd(W.double().numpy(), compute_uv=False)
    evals = esd(W)
    assert evals.dtype == np.float64 and (np.diff(evals) >= 0).all()
    assert evals[::-1] == pytest.approx(sigma**2, rel=1e-9, abs=1e-12 * sigma[0] ** 2)
    assert singular_values(W) == pytest.approx(sigma, rel=1e-12)
    assert evals.sum() == pytest.approx(W.double().square().sum().item(), rel=1e-12)
    assert math.sqrt(evals[-1]) == pytest.approx(torch.linalg.matrix_norm(W.double(), 2).item(), rel=1e-12)


@given(shapes, seeds, st.floats(1e-6, 1e6))
def test_alpha_does_not_see_transposition_scale_or_rotation(shape, seed, scale):
    W = gaussian(*shape, seed=seed, dtype=torch.float64)
    alpha = fit_alpha(esd(W)).alpha
    if alpha > 1e3:  # a tail of one or two eigenvalues: rounding is all there is
        return
    for other in (W.T, scale * W, orthogonal(shape[0], dtype=torch.float64) @ W):
        assert fit_alpha(esd(other)).alpha == pytest.approx(alpha, rel=1e-6)


@given(shapes, st.integers(1, 3), st.integers(1, 3), seeds)
def test_a_kernel_pools_its_slices(shape, height, width, seed):
    W = gaussian(*shape, height, width, seed=seed)
    slices = [esd(W[:, :, i, j]) for i in range(height) for j in range(width)]
    assert esd(W) == pytest.approx(0.5 * np.sort(np.concatenate(slices)))
    assert esd(W, conv_norm=1.0).sum() == pytest.approx(W.double().square().sum().item())
    assert esd(W[..., 0]) == pytest.approx(0.5 * np.sort(np.concatenate(slices[::width])))


def test_norms_of_a_kernel_are_of_the_kernel():
    W = gaussian(12, 8, 3, 3)
    found = one(W)
    assert found.fro == pytest.approx(W.double().norm().item())
    assert found.sigma_max == pytest.approx(max(singular_values(part)[0] for part in matrices(W)))
    assert (found.lambda_max, found.sum_lambda) == pytest.approx((found.sigma_max**2, found.fro**2))
    assert found.stable_rank == pytest.approx(found.sum_lambda / found.lambda_max)
    assert (found.rows, found.cols, found.kernel, found.n_eigs, found.kind) == (12, 8, 9, 72, "conv")
    assert found.alpha == fit_alpha(esd(W)).alpha and found.xmin == fit_alpha(esd(W)).xmin


def test_torch_and_numpy_weights_are_the_same():
    W = gaussian(20, 30)
    assert one(W) == one(W.numpy()) == one(nn.Parameter(W))
    assert (singular_values(W) == singular_values(W.numpy())).all()


@pytest.mark.parametrize("shape", [(3,), (2, 2, 2, 2, 2)])
def test_what_is_no_matrix_is_refused(shape):
    with pytest.raises(ValueError, match="needs 2 to 4 dimensions"):
        esd(torch.zeros(shape))
    with pytest.raises(ValueError, match="need a matrix"):
        singular_values(torch.zeros(shape))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_weights_stay_as_they_are(dtype, method):
    weights = {"fc.weight": gaussian(30, 20, dtype=dtype), "conv.weight": gaussian(6, 5, 3, 3, dtype=dtype)}
    before = {name: W.clone() for name, W in weights.items()}
    places = {name: W.data_ptr() for name, W in weights.items()}
    layer_table(weights, method=method, include="all")
    for name, W in weights.items():
        assert torch.equal(W, before[name]) and W.data_ptr() == places[name] and W.dtype == dtype


# --- pitfalls, by their numbers in the specification ---


def test_1_alpha_of_random_numbers_depends_on_the_shape_alone():
    square, wide = (
        one(gaussian(128, 128), random_baseline=True),
        one(gaussian(9 * 64, 64), random_baseline=True),
    )
    assert square.alpha_random == pytest.approx(2.12, abs=0.1) == square.alpha
    assert wide.alpha_random == pytest.approx(4.82, abs=0.3) == wide.alpha
    assert math.isnan(one(gaussian(8, 8)).alpha_random)
    assert random_alpha(40, 30) == random_alpha(40, 30)  # a shape has one baseline


def test_2_embeddings_and_heads_are_left_out_unless_asked_for():
    model = models.build("llama-nano")
    hidden = [layer.name for layer in measure(model)]
    assert len(hidden) == 14 and not {"embed_tokens.weight", "lm_head.weight"} & set(hidden)
    every = layer_table(model, include="all")
    assert dict(zip(every["name"], every["kind"], strict=True))["embed_tokens.weight"] == "embed"
    assert list(every["kind"])[-1] == "head" and len(every) == 16
    assert layer_names(model, include="*.q_proj.weight") == [
        f"layers.{block}.self_attn.q_proj.weight" for block in (0, 1)
    ]
    assert len(layer_table(model, exclude=["*proj*", "nothing"])) == 0
    assert len(measure(model, include=None, exclude="layers.0.*")) == 7


def test_3_the_first_and_the_last_layer_stay():
    names = layer_names(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)))
    assert names == ["0.weight", "2.weight"]
    assert layer_names(models.build("llama-nano"))[0] == "layers.0.self_attn.q_proj.weight"


def test_4_tied_weights_are_one_layer_with_an_alias():
    table = layer_table(models.build("gpt2-nano"), include="all")
    row = table[table["name"] == "wte.weight"].iloc[0]
    assert row["aliases"] == ("lm_head.weight",) and row["kind"] == "embed"
    assert "lm_head.weight" not in set(table["name"])
    W = np.ones((3, 4))
    assert [layer.aliases for layer in measure({"a": W, "b": W, "c": W.copy()})] == [("b",), ()]
    parts = gaussian(8, 8).split(4)  # of one storage, and not the same
    assert len(measure(dict(zip("ab", parts, strict=True)))) == 2


DEGENERATE = {
    "zero": torch.zeros(60, 80),
    "rank 1": torch.ones(60, 80),
    "rank 20": gaussian(60, 20) @ gaussian(20, 80, seed=1),
    "masked channels": gaussian(60, 80) * (torch.arange(60) < 10)[:, None],
    "tied": torch.eye(60),
    "orthogonal": orthogonal(60),
    "orthogonal bf16": orthogonal(60, dtype=torch.bfloat16),
    "bf16": gaussian(60, 80, dtype=torch.bfloat16),
    "fp16": gaussian(60, 80, dtype=torch.float16),
    "nan": gaussian(60, 80).index_fill(0, torch.tensor([3]), math.nan),
    "inf": gaussian(60, 80).index_fill(1, torch.tensor([3]), math.inf),
    "huge": 1e300 * gaussian(60, 80, dtype=torch.float64),
    "large": 1e153 * gaussian(60, 80, dtype=torch.float64),
    "tiny": 1e-200 * gaussian(60, 80, dtype=torch.float64),
    "subnormal": 1e-44 * gaussian(60, 80),
    "one": torch.ones(1, 1),
    "column": gaussian(60, 1),
    "kernel of zeros": torch.zeros(8, 4, 3, 3),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", DEGENERATE)
def test_5_and_8_no_weight_breaks_a_method(name, method):
    found = one(DEGENERATE[name], method=method, random_baseline=True)
    assert math.isfinite(found.alpha) or found.flags
    assert found.alpha > 1 or math.isnan(found.alpha)


def test_5_rank_deficiency_is_told():
    assert one(DEGENERATE["zero"]).flags == ("tail_hits_zero", "rank_deficient")
    assert math.isnan(one(DEGENERATE["zero"]).stable_rank)
    for name in ("rank 1", "rank 20", "masked channels"):
        found = one(DEGENERATE[name])
        assert {"tail_hits_zero", "rank_deficient"} <= set(found.flags) and math.isnan(found.alpha), name
    half = one(gaussian(60, 40) @ gaussian(40, 80, seed=1))  # 20 zeros of 60, below the median
    assert half.flags == ("rank_deficient",) and math.isfinite(half.alpha)
    full, ks = one(DEGENERATE["rank 20"], method="ks"), gaussian(60, 20) @ gaussian(20, 80, seed=1)
    assert full.alpha == fit_alpha(esd(ks)[-20:], "ks").alpha


def test_6_alpha_of_small_weights_is_that_of_large_ones():
    W = gaussian(96, 96)
    for method in METHODS:
        assert one(1e-3 * W, method=method).alpha == pytest.approx(one(W, method=method).alpha, rel=1e-4)


def test_7_half_precision_is_read_in_double():
    W = gaussian(128, 128)
    assert one(W.bfloat16()).alpha == pytest.approx(one(W).alpha, abs=5e-3)
    assert one(W.bfloat16()) == one(W.bfloat16().double())


def test_7_a_live_model_is_not_touched():
    model = models.build("llama-nano").to(torch.bfloat16)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = {name: W.clone() for name, W in model.state_dict().items()}
    measure(model, include="all")
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(parameter.requires_grad and parameter.grad is not None for parameter in model.parameters())


def test_8_flat_spectra_are_left_out_of_means_and_counted():
    rows = {"a.weight": orthogonal(64), "b.weight": gaussian(64, 64), "c.weight": gaussian(64, 64, seed=1)}
    table = layer_table(rows).assign(optimizer="muon")
    assert table["alpha"][0] == math.inf and table["flags"][0] == ("flat",)
    row = summarize(table).iloc[0]
    assert row["alpha_mean"] == pytest.approx(table["alpha"][1:].mean())
    assert row["alpha_median"] == pytest.approx(table["alpha"][1:].median())
    assert (row["alpha_n"], row["alpha_n_excluded"], row["fro_n"], row["fro_n_excluded"]) == (2, 1, 3, 0)


def test_9_small_spectra_are_left_out_of_means_unless_asked_for():
    rows = {"a.weight": gaussian(49, 64), "b.weight": gaussian(50, 64)}
    table = layer_table(rows).assign(optimizer="muon", seed=0)
    assert list(table["flags"]) == [("small_n",), ()]
    row, every = summarize(table).iloc[0], summarize(table, small_n=True).iloc[0]
    assert (row["alpha_mean"], row["alpha_n"], row["alpha_n_excluded"]) == (table["alpha"][1], 1, 1)
    assert (every["alpha_mean"], every["alpha_n"]) == (pytest.approx(table["alpha"].mean()), 2)
    assert (row["sigma_max_n"], row["sigma_max_mean"]) == (2, pytest.approx(table["sigma_max"].mean()))
    by_two = summarize(table, by=("optimizer", "seed"))
    assert list(by_two.columns[:3]) == ["optimizer", "seed", "alpha_mean"] and len(by_two) == 1


def test_10_a_larger_alpha_is_a_lighter_tail():
    heavy, light = (np.diag(np.arange(1, 129.0) ** -s) for s in (1.0, 0.3))
    assert one(heavy).alpha < one(light).alpha
    assert one(heavy).stable_rank < one(light).stable_rank
    assert one(heavy).entropy < one(light).entropy


def test_entropy_of_the_spectrum_is_that_of_its_shares():
    assert one(np.eye(16)).entropy == pytest.approx(1)
    first = np.zeros((16, 16))
    first[0, 0] = 3
    assert one(first).entropy == 0
    # sigma 1 and 2: eigenvalues 1 and 4, shares .2 and .8
    assert one(np.diag([1.0, 2.0])).entropy == pytest.approx(-(0.2 * math.log2(0.2) + 0.8 * math.log2(0.8)))
    assert math.isnan(one(np.zeros((4, 4))).entropy)


def test_11_names_are_without_wrappers():
    model = models.build("llama-nano")
    plain = layer_names(model, include="all")
    state = model.state_dict()
    for prefix in ("module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."):
        assert layer_names({prefix + name: W for name, W in state.items()}, include="all") == plain
    inside = {
        name.replace("self_attn.", "_checkpoint_wrapped_module.self_attn."): W for name, W in state.items()
    }
    assert layer_names(inside, include="all") == plain
    assert layer_names(nn.DataParallel(model), include="all") == plain
    assert layer_names({"my_module.fc.weight": torch.ones(2, 2)}, include="all") == ["my_module.fc.weight"]


class Shard:
    """What a DTensor looks like from outside."""

    ndim, shape, dtype, is_meta = 2, (4, 4), torch.float32, False

    def full_tensor(self):
        raise AssertionError("gathering is not ours to do")


def test_11_sharded_weights_are_refused():
    with pytest.raises(ValueError, match=r"blocks.0.fc1.weight: .* sharded .* gather it first"):
        one(Shard())
    with pytest.raises(ValueError, match="FSDP"):
        measure({"_fsdp_wrapped_module._flat_param": torch.zeros(100)})
    with pytest.raises(ValueError, match="meta tensor"):
        one(torch.zeros(4, 4, device="meta"))


@pytest.mark.slow  # imports for seconds
def test_11_a_real_distributed_tensor_is_refused(tmp_path):
    from torch import distributed
    from torch.distributed.tensor import DTensor, Replicate, init_device_mesh

    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        with pytest.raises(ValueError, match="gather it first"):
            one(DTensor.from_local(torch.ones(4, 4), mesh, [Replicate()]))
    finally:
        distributed.destroy_process_group()


# --- which tensors ---


def test_what_is_no_weight_has_no_row():
    state = {
        "h.0.attn.bias": torch.ones(1, 1, 8, 8),  # the mask in checkpoints of GPT-2
        "h.0.attn.c_attn.bias": torch.ones(24),
        "fc.scales": torch.ones(4, 4),
        "fc.qweight": torch.ones(4, 4, dtype=torch.int32),
        "mask": torch.ones(4, 4, dtype=torch.bool),
        "empty.weight": torch.ones(0, 4),
        "five.weight": torch.ones(2, 2, 2, 2, 2),
        "coded.weight": torch.ones(4, 4).to(torch.float8_e4m3fn),
        "fc.weight": torch.ones(4, 4),
    }
    assert layer_names(state, include="all") == ["fc.weight"]
    assert list(layer_table({}).columns) == list(layer_table({"a": np.eye(3)}).columns)


def test_experts_are_a_stack_of_matrices():
    W = gaussian(4, 10, 6)  # experts, out, in
    (found,) = measure({"layers.0.mlp.experts.down_proj": W})
    assert (found.rows, found.cols, found.kernel, found.kind) == (10, 6, 4, "down")
    pooled = np.sort(np.concatenate([esd(part) for part in W]))
    assert (found.sum_lambda, found.alpha) == pytest.approx((pooled.sum(), fit_alpha(pooled).alpha))
    (same,) = measure({"layers.0.mlp.experts.down_proj": W.numpy()})
    assert same == found


def test_unknown_methods_are_refused():
    with pytest.raises(ValueError, match="known are hill_mid, ks$"):
        measure({}, method="hill")
