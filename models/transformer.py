"""The block that GPT-2 and the vision transformer share, and a stack of blocks that saves memory if told to.

Shapes: B batch, T sequence, D hidden, H heads, K head size (D / H).
"""

from collections.abc import Iterable
from typing import TypeVar

import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

State = TypeVar("State")


def run_through(blocks: Iterable[nn.Module], x: State, *others: object, recompute: bool) -> State:
    """The last block's output, where every block gets the previous one's and `others`.

    Args:
        blocks: in their order.
        x: for the first block.
        others: for every block.
        recompute: keep no activations inside a block; the backward pass computes them again.
    """
    for block in blocks:
        x = checkpoint(block, x, *others, use_reentrant=False) if recompute else block(x, *others)
    return x


class Attention(nn.Module):
    """Multi-head self-attention; one matrix (3 D, D) makes queries, keys and values, in this order."""

    def __init__(self, hidden: int, heads: int, *, causal: bool, dropout: float) -> None:
        super().__init__()
        if hidden % heads:
            raise ValueError(f"hidden={hidden} must be a multiple of heads={heads}")
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.proj = nn.Linear(hidden, hidden)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        B, T, D = x_BTD.shape
        q, k, v = self.qkv(x_BTD).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4).unbind()
        dropout = self.dropout if self.training else 0.0
        y_BHTK = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=self.causal)
        out: Tensor = self.proj(y_BHTK.transpose(1, 2).reshape(B, T, D))
        return out


class Block(nn.Module):
    """Pre-norm attention and feed-forward layer, each added to the residual stream.

    Args:
        hidden: D.
        intermediate: width of the feed-forward layer.
        heads: H.
        eps: of the norms.
        gelu: "none" for the exact function, "tanh" for its approximation.
        causal: whether a position sees the earlier ones only.
        dropout: of the attention weights, and of what is added to the residual stream.
    """

    def __init__(
        self,
        hidden: int,
        intermediate: int,
        heads: int,
        *,
        eps: float,
        gelu: str,
        causal: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(hidden, eps=eps)
        self.attn = Attention(hidden, heads, causal=causal, dropout=dropout)
        self.norm2 = nn.LayerNorm(hidden, eps=eps)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, intermediate), nn.GELU(gelu), nn.Linear(intermediate, hidden)
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        x_BTD = x_BTD + self.drop(self.attn(self.norm1(x_BTD)))
        out: Tensor = x_BTD + self.drop(self.mlp(self.norm2(x_BTD)))
        return out


def fused_projections(model: nn.Module) -> dict[nn.Parameter, int]:
    """How many projections each fused matrix of a model holds, for optimizers that treat them apart."""
    layers = [part.qkv for part in model.modules() if isinstance(part, Attention)]
    return {parameter: 3 for layer in layers for parameter in layer.parameters() if parameter.ndim == 2}


def initialise_linear(layer: nn.Module, std: float, *, truncated: bool = False) -> None:
    """Gaussian weights and no bias, if the layer is linear; cut off at +-2 if `truncated`, as timm does."""
    if isinstance(layer, nn.Linear):
        (nn.init.trunc_normal_ if truncated else nn.init.normal_)(layer.weight, std=std)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
