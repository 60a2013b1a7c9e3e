"""A run that compiles nothing starts without torch.compile, which is half of what it would import.

torch keeps some methods of its optimizers out of compiled code. For that it imports `torch._dynamo`, with
sympy, when one of them is first called: three seconds of a slow core in each job of a sweep, and hundreds of
small files of a network file system.
"""

import functools
import inspect
from typing import Any

import torch
from torch.optim import SGD, Adam, Optimizer

_KEPT_OUT = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
_RULES: tuple[Any, ...] = (Adam, SGD)  # AdamW is an Adam


@functools.cache
def without_compiler() -> None:
    """From now on torch's optimizers do without `torch._dynamo`. A model may still be compiled.

    What is not done any more has a meaning inside of compiled code only, where no run calls an optimizer.
    """
    for name in _KEPT_OUT:
        method = inspect.unwrap(getattr(Optimizer, name))
        vars(method).setdefault("__dynamo_disable", method)  # where torch keeps what is called instead
    for rule in _RULES:
        rule.step = _step(inspect.unwrap(rule.step))


def _step(plain: Any) -> Any:
    def step(self: Optimizer, closure: Any = None) -> Any:
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return plain(self, closure)

    return step
