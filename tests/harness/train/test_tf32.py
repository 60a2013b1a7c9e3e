"""Number formats of products on CUDA are for the model alone; its flags are there on a CPU, too."""

import pytest
import torch

from htbench.harness.config.key import resolved, run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.data.images import ImageTask
from htbench.harness.store import Store
from htbench.harness.train import run
from htbench.optimizers import Sophia


def _flags():
    matmul = torch.backends.cuda.matmul
    sums = matmul.allow_bf16_reduced_precision_reduction, matmul.allow_fp16_reduced_precision_reduction
    return matmul.allow_tf32, torch.backends.cudnn.allow_tf32, *sums


def _set_flags(products, convolutions, bfloat16, float16):
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = products, convolutions
    matmul.allow_bf16_reduced_precision_reduction = bfloat16
    matmul.allow_fp16_reduced_precision_reduction = float16


@pytest.fixture
def _flags_afterwards_as_before():
    before = _flags()
    yield
    _set_flags(*before)


@pytest.mark.usefixtures("_flags_afterwards_as_before")
@pytest.mark.parametrize(
    ("given", "model"),
    [
        ({}, (False, False)),
        ({"tf32_convolutions": True}, (False, True)),  # as PyTorch does
        ({"tf32": True}, (True, True)),
    ],
)
def test_tf32_is_for_the_model_s_passes_only(tmp_path, tiny, monkeypatch, recwarn, given, model):
    """An optimizer's maps need their float32, and no sum is rounded to bfloat16 or float16 half-way."""
    _set_flags(True, True, True, True)
    passes, rest = [], []

    def noting(kind, name, seen):
        proper = getattr(kind, name)

        def noted(*args, **named):
            seen.append(_flags())
            return proper(*args, **named)

        monkeypatch.setattr(kind, name, noted)

    noting(ImageTask, "loss", passes)
    noting(ImageTask, "score", passes)
    noting(Sophia, "step", rest)
    settings = {f"precision.{name}": value for name, value in given.items()}
    rule = {"optimizer.name": "sophia", "optimizer.lr": 1e-3, "steps": 2, "device": "cpu"}
    run.run(resolved(resolve_config(tiny | settings | rule)), Store(tmp_path))
    assert set(passes) == {(*model, False, False)} and set(rest) == {(False,) * 4}
    assert not [one for one in recwarn if "tf32" in str(one.message).lower()]


def test_tf32_of_all_products_is_also_that_of_convolutions(tiny):
    one, other = (
        run_key(resolve_config(tiny | {"precision.tf32": True, "precision.tf32_convolutions": convolutions}))
        for convolutions in (False, True)
    )
    assert one == other
