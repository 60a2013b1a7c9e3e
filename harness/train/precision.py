"""Which products and convolutions of float32 may be in TF32 on CUDA: those of the model, if asked.

The flags are torch's and the process's. Between the model's passes all is off: the optimizer's maps need
their float32, whatever the model runs in. With TF32 the error of HTMuon's graded map goes from 7e-4 to 0.46.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from htbench.harness.config.schema import PrecisionConfig


def exact() -> None:
    """From now on CUDA takes products of float32, and sums of bfloat16 and float16 products, in float32."""
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    matmul.allow_bf16_reduced_precision_reduction = matmul.allow_fp16_reduced_precision_reduction = False


@contextmanager
def of_the_model(precision: PrecisionConfig) -> Iterator[None]:
    """What a config grants to the model, inside; `exact` afterwards."""
    torch.backends.cuda.matmul.allow_tf32 = precision.tf32
    torch.backends.cudnn.allow_tf32 = precision.tf32 or precision.tf32_convolutions
    try:
        yield
    finally:
        exact()
