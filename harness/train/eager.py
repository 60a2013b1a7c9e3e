"""A run that compiles nothing starts without torch.compile, which is half of what it would import.

torch keeps some methods of its optimizers out of compiled code, and imports `torch._dynamo`, with sympy, as
soon as one is called: three seconds of a slow core, in each job of a sweep, and hundreds of small files of a
network file system.
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
    """Have torch's optimizers call these methods as they are. A model may still be compiled."""
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
