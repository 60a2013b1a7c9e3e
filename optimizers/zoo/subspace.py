"""Rows of the optimizers that run Adam in a basis or subspace of their own, and their classes' arguments."""

from typing import Final

from htbench.optimizers.zoo.param import Param
from htbench.optimizers.zoo.spec import OptimizerSpec, aux, beta, betas, eps, lr, of_class, weight_decay

SOAP: Final = {
    "lr": lr(3e-3),
    "weight_decay": weight_decay(0.01),
    "betas": betas(0.95, 0.95),
    "shampoo_beta": beta(None, "decay of the Gram matrices; null: the second of betas"),
    "precondition_frequency": Param(int, 10, low=1, help="steps between two updates of the bases"),
    "max_precond_dim": Param(int, 10000, low=0, help="larger dimensions are not rotated"),
    "eps": eps(1e-8),
    "correct_bias": Param(bool, True, help="correct the moments for their start at zero"),
}
KL_SOAP: Final = {
    "lr": lr(0.018),
    "weight_decay": weight_decay(0.0),
    "betas": betas(0.95, 0.9),
    "second_moment": Param(
        str,
        "entries",
        choices=("entries", "factors"),
        before="entries",
        help="average of squares in the bases, or the eigenvalues of both factors (KL-Shampoo)",
    ),
    "shampoo_beta": beta(0.9, "decay of the Gram matrices and their eigenvalues"),
    "precondition_frequency": Param(int, 1, low=1, help="steps between two updates of the bases"),
    "eps": eps(1e-8),
}
GALORE: Final = {
    "lr": lr(2e-2),
    "weight_decay": weight_decay(0.0),
    "rank": Param(int, 128, low=0, help="of the projection, cut to the smaller dimension; 0: plain Adam"),
    "scale": Param(float, 0.25, low=0, low_open=True, help="factor alpha of the projected update"),
    "update_gap": Param(int, 200, low=1, help="steps between two projectors"),
    "betas": betas(0.9, 0.999),
    "eps": eps(1e-6),
    "square_side": Param(
        str, "right", choices=("right", "left"), help="side of the projector of a square matrix"
    ),
}
COSMOS: Final = {
    "lr": lr(3e-3),
    "weight_decay": weight_decay(0.1),
    "betas": betas(0.9, 0.95, 0.95),
    "rank": Param(int, 64, low=1, help="of the subspace that gets Adam, cut to the columns of the matrix"),
    "lr_ratio": Param(float, 0.25, low=0, low_open=True, help="RMS of a matrix's update, in units of lr"),
    "gamma": Param(float, None, low=0, help="weight of the Newton-Schulz part; null: lr_ratio"),
    "eps": eps(1e-8, "added to the root of the second moment and to the norms"),
    "momentum_rule": Param(
        str,
        "ema",
        choices=("ema", "nesterov", "gradient"),
        help="the average M, the original's Nesterov momentum, or (its slip) none",
    ),
    "side": Param(str, "right", choices=("right", "left"), help="follow the rows of a matrix or its columns"),
    "split_qkv": Param(bool, False, help="Newton-Schulz on each third of a fused query, key and value"),
    "ns_steps": Param(int, 5, low=1, help="Newton-Schulz iterations"),
    "ns_dtype": Param(
        str, "bfloat16", choices=("bfloat16", "float32", "float64"), help="precision of the iterations"
    ),
    "max_rows": Param(int, 10000, low=0, help="matrices with more rows get plain Adam"),
    "fallback_beta1": beta(
        None, "beta1 in the bias-corrected weights of the fallback Adam; null: the first of betas"
    ),
}


ROWS: Final = (
    OptimizerSpec(
        name="soap",
        target="htbench.optimizers.soap:SOAP",
        family="subspace",
        **of_class(SOAP),
        state="m, v, L and Q of each dimension",
        vectors="Adam",
        paper="Vyas et al., SOAP: Improving and Stabilizing Shampoo using Adam, 2025",
        url="https://arxiv.org/abs/2409.11321",
        revision=2,
    ),
    OptimizerSpec(
        name="kl_soap",
        target="htbench.optimizers.soap_kin:KLSOAP",
        family="subspace",
        **of_class(KL_SOAP, **aux()),
        state="m, v, L, Q and eigenvalues of each side",
        vectors="AdamW",
        released="hidden",
        has_aux=True,
        paper="Lin et al., Understanding and Improving Shampoo and SOAP via KL Minimization, 2025",
        url="https://arxiv.org/abs/2509.03378",
        revision=2,
    ),
    OptimizerSpec(
        name="galore",
        target="htbench.optimizers.galore:GaLore",
        family="subspace",
        **of_class(GALORE),
        state="P, m, v (projected)",
        vectors="Adam",
        released="hidden_linear",
        rest={"rank": 0},
        paper="Zhao et al., GaLore: Memory-Efficient LLM Training by Gradient Low-Rank Projection, 2024",
        url="https://arxiv.org/abs/2403.03507",
    ),
    OptimizerSpec(
        name="cosmos",
        target="htbench.optimizers.cosmos:COSMOS",
        family="subspace",
        **of_class(COSMOS),
        state="M, U, S, V (projected)",
        vectors="Adam",
        paper="Liu et al., COSMOS: A Hybrid Adaptive Optimizer for Memory-Efficient Training of LLMs, 2025",
        url="https://arxiv.org/abs/2502.17410",
        revision=2,
    ),
)
