"""Cross-entropy of a linear layer's output, which is never held whole.

With 32,000 words the logits are most of a small language model's memory: the plain loss keeps them, their
logarithm of the softmax and their gradient. Here each chunk of rows is turned into its share of the loss and
of both gradients at once, in the forward pass, and its memory is used again for the next one.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._compile import _disable_dynamo

# Logits of a chunk by device. On a CPU 64 MiB in float32, 524 rows of 32,000 words: measured at 2048 rows on
# one thread, a half, twice and four times it are as quick, and with a larger one a small batch in bfloat16
# needs more memory than with the plain loss. On a GPU a chunk costs a dozen launches, and it reads and writes
# the gradient of the weight: half as many are worth the memory.
CHUNK_LOGITS = {"cpu": 2**24, "cuda": 2**25}


@_disable_dynamo  # torch.compiler.disable, but imports torch.compile only when it is called
def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, kept: Tensor | None = None
) -> Tensor:
    """Summed cross-entropy in nats of the logits `hidden @ weight.T`, in float32 at least.

    The factors of products are in autocast's precision where that is on, else in that of the arguments. The
    softmax, sums, the gradient of the weight and, on a GPU, the logits are in float32 at least. There is no
    second derivative.

    Args:
        hidden: (N, D).
        weight: (V, D).
        targets: (N,), rows of `weight`.
        kept: the numbers of the targets that count, int64 (K,); the other rows cost nothing. None: all count.

    Raises:
        RuntimeError: a target that counts is no row of `weight`.
    """
    device, dtype = hidden.device.type, hidden.dtype
    if torch.is_autocast_enabled(device) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)
    wanted = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    loss: Tensor = _LinearCrossEntropy.apply(hidden, weight, targets, kept, dtype, wanted)  # type: ignore[no-untyped-call]
    return loss


def linear_cross_entropies(hidden: Tensor, weight: Tensor, targets: Tensor, ignored: int = -100) -> Tensor:
    """Each target's cross-entropy in nats, (N,), 0 where it is ignored; in chunks, and without gradients.

    Other arguments and the precision are those of `linear_cross_entropy`.
    """
    rows = _chunk(weight)
    losses = []
    with torch.no_grad():
        for part, wanted in zip(torch.split(hidden, rows), torch.split(targets, rows), strict=True):
            logits = F.linear(part, weight)
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
            losses.append(F.cross_entropy(logits, wanted, ignore_index=ignored, reduction="none"))
    return torch.cat(losses)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        kept: Tensor | None,
        dtype: torch.dtype,
        wanted: bool,
    ) -> Tensor:
        shape = hidden.shape
        if kept is not None:
            hidden, targets = hidden[kept], targets[kept]
        h, w, columns = hidden.to(dtype), weight.to(dtype), targets[:, None]
        rows = max(1, min(_chunk(w), len(h)))
        products = h.new_empty(rows, len(w))
        logits = products.to(torch.promote_types(dtype, torch.float32))  # the same tensor if it has this type
        h_grad, w_grad = torch.empty_like(h), logits.new_zeros(w.shape if wanted else 0)
        loss, minus = logits.new_zeros(()), logits.new_full((rows, 1), -1)
        for start in range(0, len(h), rows):
            chunk = slice(start, start + rows)
            part, column = h[chunk], columns[chunk]
            product = products[: len(part)]
            x = product if logits is products else logits[: len(part)]
            if x.is_cuda and x.dtype != part.dtype:  # a product more precise than its factors; no CPU has it
                torch.mm(part, w.T, out_dtype=x.dtype, out=x)
            else:
                x.copy_(torch.mm(part, w.T, out=product))
            torch.log_softmax(x, dim=1, out=x)
            loss -= x.gather(1, column).sum()
            if wanted:
                x.exp_().scatter_add_(1, column, minus[: len(part)])
                torch.mm(product.copy_(x), w, out=h_grad[chunk])
                _add_product(w_grad, product.T, part)
        ctx.save_for_backward(kept, h_grad, w_grad)
        ctx.like = shape, hidden.dtype, weight.dtype
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        kept, h_grad, w_grad = ctx.saved_tensors
        shape, hidden_dtype, weight_dtype = ctx.like
        all_rows = h_grad * grad
        if kept is not None:
            all_rows = h_grad.new_zeros(shape).index_copy_(0, kept, all_rows)
        return all_rows.to(hidden_dtype), (w_grad * grad).to(weight_dtype), None, None, None, None


def _chunk(weight: Tensor) -> int:
    """Rows of a chunk."""
    return max(1, CHUNK_LOGITS[weight.device.type] // len(weight))


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a @ b, where the product may be less precise."""
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    elif total.is_cuda:  # in one call, and not rounded before the sum
        torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    else:
        total += a @ b
