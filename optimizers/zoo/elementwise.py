"""Rows of the optimizers that treat every entry of a parameter alike, and the arguments of our own ones."""

from dataclasses import replace
from typing import Final

from htbench.optimizers.zoo.param import Param
from htbench.optimizers.zoo.spec import OptimizerSpec, aux, beta, betas, eps, lr, of_class, weight_decay

# All arguments of our classes, which check them against these tables.
CAUTIOUS: Final = {
    "lr": lr(4e-3),
    "weight_decay": weight_decay(0.0),
    "betas": betas(0.9, 0.999),
    "eps": eps(1e-6),
    "mask_floor": Param(
        float,
        1e-3,
        low=0,
        high=1,
        low_open=True,
        help="lower bound of mean(s), by which the kept entries are divided",
    ),
    "raw_eps": Param(bool, False, help="add eps before the bias correction"),
}
MARS: Final = {
    "lr": lr(3e-3),
    "weight_decay": weight_decay(0.1),
    "betas": betas(0.9, 0.95),
    "gamma": Param(float, 0.025, low=0, help="weight of the gradient's change since the last step"),
    "eps": eps(1e-8),
    "clip": Param(bool, True, help="clip the corrected gradient of a parameter to norm 1"),
}
_SIGNS = ({"sign_momentum": (True,)},)  # without curvature passes nothing of them matters
SOPHIA: Final = {
    "lr": lr(4e-4),
    "weight_decay": weight_decay(0.1),
    "betas": betas(0.965, 0.99),
    "rho": Param(
        float, 0.05, low=0, low_open=True, inert=_SIGNS, help="steps are clipped where |m| exceeds rho h"
    ),
    "curvature_interval": Param(
        int, 10, low=1, inert=_SIGNS, help="steps from one curvature pass to the next (k)"
    ),
    "curvature_at_start": Param(
        bool,
        False,
        inert=_SIGNS,
        help="first curvature pass before the first update, as in the paper, not after k",
    ),
    "sign_momentum": Param(bool, False, help="no curvature passes: sign momentum (Signum), as published"),
    "eps": eps(1e-15, "added to rho h"),
}
LION: Final = {"lr": lr(3e-4), "weight_decay": weight_decay(0.3), "betas": betas(0.9, 0.99)}
SIGNUM: Final = {"lr": lr(3e-4), "weight_decay": weight_decay(0.3), "momentum": beta(0.9, "decay of m")}
ADEMAMIX: Final = {
    "lr": lr(1e-3),
    "weight_decay": weight_decay(0.1),
    "betas": betas(0.9, 0.999, 0.9999),
    "alpha": Param(float, 2.0, low=0, help="weight of the slow momentum"),
    "warmup": Param(int, 0, low=0, help="steps until alpha and the third beta are reached; the run's length"),
    "eps": eps(1e-8),
}
ADOPT: Final = {
    "lr": lr(1e-3),
    "weight_decay": weight_decay(0.1),
    "betas": betas(0.9, 0.9999),
    "eps": eps(1e-6, "lower bound of the root of the second moment"),
    "clip": Param(bool, True, help="clip the entries of G / sqrt(v) by t^(1/4)"),
}
SCHEDULE_FREE: Final = {
    "lr": lr(2.5e-3),
    "weight_decay": weight_decay(0.1),
    "betas": replace(betas(0.9, 0.999), low_open=True),
    "eps": eps(1e-8),
}
PRODIGY: Final = {
    "lr": replace(lr(1.0), help="factor of the rate that it finds; leave it at 1"),
    "weight_decay": weight_decay(0.1),
    "betas": betas(0.9, 0.999),
    "d0": Param(float, 1e-6, low=0, low_open=True, help="the first rate, below any that could be right"),
    "growth": Param(float, 1.0, low=0, low_open=True, help="factor of the estimated rate (d_coef)"),
    "bias_correction": Param(bool, False, help="that of Adam"),
    "safeguard_warmup": Param(bool, False, help="leave lr out of s, for long warm-ups"),
    "eps": eps(1e-8),
}


_ADAM = {"betas": betas(0.9, 0.999), "eps": eps(1e-8)}

ROWS: Final = (
    OptimizerSpec(
        name="adam",
        target="torch.optim:Adam",
        family="elementwise",
        lr=lr(1e-3),
        weight_decay=weight_decay(1e-5, "coupled (L2)"),
        params=_ADAM,
        state="m, v",
        fixed={"fused": True},  # one pass over memory
        paper="Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015",
        url="https://arxiv.org/abs/1412.6980",
    ),
    OptimizerSpec(
        name="adamw",
        target="torch.optim:AdamW",
        family="elementwise",
        lr=lr(1e-3),
        weight_decay=weight_decay(0.1),
        params={
            **_ADAM,
            "no_decay_1d": Param(bool, False, used_by="build", help="no weight decay on vectors"),
        },
        state="m, v",
        fixed={"fused": True},
        paper="Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019",
        url="https://arxiv.org/abs/1711.05101",
    ),
    OptimizerSpec(
        name="sgdm",
        target="torch.optim:SGD",
        family="elementwise",
        lr=lr(0.3),
        weight_decay=weight_decay(5e-4, "coupled (L2)"),
        params={
            "momentum": beta(0.9, "weight mu of the gradient sum B"),
            "nesterov": Param(bool, False, help="step along G + mu B instead of B"),
        },
        state="B",
        paper="Sutskever et al., On the importance of initialization and momentum, 2013",
        url="https://proceedings.mlr.press/v28/sutskever13.html",
    ),
    OptimizerSpec(
        name="cautious",
        target="htbench.optimizers.elementwise:Cautious",
        family="elementwise",
        **of_class(CAUTIOUS),
        state="m, v",
        paper="Liang et al., Cautious Optimizers: Improving Training with One Line of Code, 2024",
        url="https://arxiv.org/abs/2411.16085",
    ),
    OptimizerSpec(
        name="mars",
        target="htbench.optimizers.elementwise:MARS",
        family="elementwise",
        **of_class(
            MARS,
            optimize_1d=Param(
                bool, False, used_by="build", help="MARS for every parameter, vectors and kernels included"
            ),
            **aux(1e-8),
        ),
        state="m, v, last",
        vectors="AdamW",
        released="two_dimensional",
        has_aux=True,
        aux_lr=Param(float, 3e-3, low=0, low_open=True, help="peak learning rate of the auxiliary AdamW"),
        paper="Yuan et al., MARS: Unleashing the Power of Variance Reduction for Training Large Models, 2024",
        url="https://arxiv.org/abs/2411.10438",
    ),
    OptimizerSpec(
        name="sophia",
        target="htbench.optimizers.elementwise:Sophia",
        family="elementwise",
        **of_class(SOPHIA),
        state="m, h",
        paper="Liu et al., Sophia: A Scalable Stochastic Second-order Optimizer for Language Model "
        "Pre-training, 2024",
        url="https://arxiv.org/abs/2305.14342",
    ),
    OptimizerSpec(
        name="lion",
        target="htbench.optimizers.lion:Lion",
        family="elementwise",
        **of_class(LION),
        state="m",
        paper="Chen et al., Symbolic Discovery of Optimization Algorithms, 2023",
        url="https://arxiv.org/abs/2302.06675",
    ),
    OptimizerSpec(
        name="signum",
        target="htbench.optimizers.lion:Signum",
        family="elementwise",
        **of_class(SIGNUM),
        state="m",
        paper="Bernstein et al., signSGD: Compressed Optimisation for Non-Convex Problems, 2018",
        url="https://arxiv.org/abs/1802.04434",
    ),
    OptimizerSpec(
        name="ademamix",
        target="htbench.optimizers.adam_forms:AdEMAMix",
        family="elementwise",
        **of_class(ADEMAMIX),
        state="m, n, v",
        paper="Pagliardini et al., The AdEMAMix Optimizer: Better, Faster, Older, 2024",
        url="https://arxiv.org/abs/2409.03137",
    ),
    OptimizerSpec(
        name="adopt",
        target="htbench.optimizers.adam_forms:ADOPT",
        family="elementwise",
        **of_class(ADOPT),
        state="m, v",
        paper="Taniguchi et al., ADOPT: Modified Adam Can Converge with Any beta2 with the Optimal Rate, "
        "2024",
        url="https://arxiv.org/abs/2411.02853",
    ),
    OptimizerSpec(
        name="schedule_free",
        target="htbench.optimizers.schedule_free:ScheduleFree",
        family="elementwise",
        **of_class(SCHEDULE_FREE),
        shaped=False,
        state="z, v",
        schedules=("constant",),
        switches=True,
        paper="Defazio et al., The Road Less Scheduled, 2024",
        url="https://arxiv.org/abs/2405.15682",
    ),
    OptimizerSpec(
        name="prodigy",
        target="htbench.optimizers.prodigy:Prodigy",
        family="elementwise",
        **of_class(PRODIGY),
        shaped=False,
        state="m, v, s, W0",
        paper="Mishchenko and Defazio, Prodigy: An Expeditiously Adaptive Parameter-Free Learner, 2024",
        url="https://arxiv.org/abs/2306.06101",
    ),
)
