"""LLaMA as the paper's pre-training runs use it: RMSNorm, rotary positions, SwiGLU, untied head, no biases.

Shapes: B batch, T sequence, D hidden, F intermediate, H heads, K head size (D / H), V vocabulary; N = B T:
all positions as rows of one matrix, which a linear layer takes without views and their gradients.
Source: Touvron et al., "LLaMA" (2023), arXiv 2302.13971; parameter names, the rotation of halves (rather than
of neighbours) and the initialisation are those of the Hugging Face model that the HTMuon release trains.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from htbench.models.transformer import run_through

MakeTable = Callable[[int, int, Tensor], tuple[Tensor, Tensor]]

INITIAL_STD = 0.02  # `initializer_range` of the released model configurations
NORM_EPS = 1e-6
ROPE_BASE = 10_000.0


def rotary_table(length: int, head_size: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine (T, K/2) of position times frequency, on the device of `like`.

    At least float32 whatever the model's precision: bfloat16 rounds an angle near 255 by up to one half.
    It is no buffer of the model, since that would follow `model.to(bfloat16)`.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    exponents = torch.arange(0, head_size, 2, device=like.device, dtype=dtype) / head_size
    positions = torch.arange(length, device=like.device, dtype=dtype)
    angles = torch.outer(positions, ROPE_BASE**-exponents)
    return angles.cos(), angles.sin()


def for_heads(table: tuple[Tensor, Tensor], heads: int) -> tuple[Tensor, Tensor]:
    """The table, repeated for both halves of every head: (T, D).

    The sine of a first half is negative there. Rows as long as those of the queries make products quick,
    above all where a head is small.
    """
    cos, sin = table
    return torch.cat((cos, cos), 1).repeat(1, heads), torch.cat((-sin, sin), 1).repeat(1, heads)


class RotaryTable:
    """The table of `for_heads`, which is made again only for another length, device or precision.

    Args:
        make: cosine and sine from length, head size and a tensor like those to turn.
        heads: of the attention.
        head_size: K.
    """

    def __init__(self, make: MakeTable, heads: int, head_size: int) -> None:
        self.make, self.heads, self.head_size = make, heads, head_size
        self._made_for: tuple[object, ...] = ()
        self._table: tuple[Tensor, Tensor]

    def of(self, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """That of so many positions, (T, D) each."""
        wanted = length, like.device, like.dtype, type(like)  # a fake tensor gets a fake table
        if self._made_for == wanted:
            return self._table
        table = for_heads(self.make(length, self.head_size, like), self.heads)
        if not torch.compiler.is_compiling() and not torch.is_inference_mode_enabled():
            self._made_for, self._table = wanted, table  # of use to later passes
        return table


def rotate(x_BTD: Tensor, table: tuple[Tensor, Tensor], heads: int) -> Tensor:
    """Turn the pair (x_i, x_{i + K/2}) of every head by its position's angle; the table is of `for_heads`."""
    cos_TD, sin_TD = (part.to(x_BTD.dtype) for part in table)
    x_BTHK = x_BTD.view(*x_BTD.shape[:-1], heads, -1)
    # To roll a head by half its length swaps its halves, in a third of the time of a flip.
    swapped = x_BTHK.roll(x_BTHK.shape[-1] // 2, -1).view_as(x_BTD)
    return x_BTD * cos_TD + swapped * sin_TD


class Attention(nn.Module):
    """Causal multi-head self-attention with rotary positions.

    Args:
        hidden: D.
        heads: H.
        bias: whether the four projections have one.
        qk_norm: whether each query and key is divided by its root mean square; it is then turned in float32.
        scale: of the products of queries and keys; None: 1 / sqrt(K).
    """

    def __init__(
        self,
        hidden: int,
        heads: int,
        *,
        bias: bool = False,
        qk_norm: bool = False,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.qk_norm, self.scale = heads, qk_norm, scale
        self.q_proj = nn.Linear(hidden, hidden, bias=bias)
        self.k_proj = nn.Linear(hidden, hidden, bias=bias)
        self.v_proj = nn.Linear(hidden, hidden, bias=bias)
        self.o_proj = nn.Linear(hidden, hidden, bias=bias)

    def forward(self, x_ND: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """(N, D) -> (N, D); the table is of T positions."""
        T, D = table[0].shape
        q, k, v = self.q_proj(x_ND), self.k_proj(x_ND), self.v_proj(x_ND)
        if self.qk_norm:
            q, k = (self._normed(part) for part in (q, k))
        q, k = (rotate(part.view(-1, T, D), table, self.heads).type_as(v) for part in (q, k))
        q, k, v = (part.view(-1, T, self.heads, D // self.heads).transpose(1, 2) for part in (q, k, v))
        y_BHTK = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        out: Tensor = self.o_proj(y_BHTK.transpose(1, 2).reshape(-1, D))
        return out

    def _normed(self, x_ND: Tensor) -> Tensor:
        """Every head over its root mean square, in float32 at least: (N, D)."""
        heads = x_ND.to(torch.promote_types(x_ND.dtype, torch.float32)).view(len(x_ND), self.heads, -1)
        return F.rms_norm(heads, heads.shape[-1:]).view_as(x_ND)


class SwiGLU(nn.Module):
    """The gated feed-forward layer: down(silu(gate(x)) * up(x))."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x_ND: Tensor) -> Tensor:
        """(N, D) -> (N, D)."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x_ND)) * self.up_proj(x_ND))
        return out


class Block(nn.Module):
    """Pre-norm attention and feed-forward, each added to the residual stream."""

    def __init__(self, hidden: int, intermediate: int, heads: int) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(hidden, eps=NORM_EPS)
        self.self_attn = Attention(hidden, heads)
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps=NORM_EPS)
        self.mlp = SwiGLU(hidden, intermediate)

    def forward(self, x_ND: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """(N, D) -> (N, D)."""
        x_ND = x_ND + self.self_attn(self.input_layernorm(x_ND), table)
        out: Tensor = x_ND + self.mlp(self.post_attention_layernorm(x_ND))
        return out


class Llama(nn.Module):
    """Next-token logits (B, T, V) from tokens (B, T).

    Args:
        vocabulary: V, rows of the embedding and of the head.
        hidden: D, must be `heads` times an even head size.
        intermediate: F, width of the feed-forward layer.
        heads: H.
        layers: number of blocks.
        max_length: longest sequence accepted. Nothing is allocated for it: it states what we train on.
    """

    splits_head = True  # `forward(tokens, head=False)` leaves the head to the loss

    def __init__(
        self, *, vocabulary: int, hidden: int, intermediate: int, heads: int, layers: int, max_length: int
    ) -> None:
        super().__init__()
        if hidden % (2 * heads):
            raise ValueError(f"hidden={hidden} must be a multiple of 2 * heads = {2 * heads}")
        self.hidden, self.heads, self.head_size = hidden, heads, hidden // heads
        self.rotary = RotaryTable(rotary_table, heads, self.head_size)
        self.max_length = max_length
        self.recompute = False  # the activations inside blocks, in the backward pass
        self.embed_tokens = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(Block(hidden, intermediate, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden, eps=NORM_EPS)
        self.lm_head = nn.Linear(hidden, vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.ndim == 2:  # the gains of the norms stay one
                nn.init.normal_(parameter, std=INITIAL_STD)

    def get_output_embeddings(self) -> nn.Module:
        """The layer that produces the logits; parameter routing finds it by this name."""
        return self.lm_head

    def roles(self) -> dict[nn.Parameter, str]:
        """What each parameter does, in the words of `optimizers.transfer`."""
        ends = {"embed_tokens.weight": "embedding", "norm.weight": "vector", "lm_head.weight": "head"}
        inner = {"q_proj": "query", "o_proj": "branch", "down_proj": "branch"}
        roles: dict[nn.Parameter, str] = {}
        for name, p in self.named_parameters():
            layer = "inner vector" if p.ndim < 2 else inner.get(name.split(".")[-2], "hidden")
            roles[p] = ends.get(name, layer)
        return roles

    def forward(self, tokens_BT: Tensor, head: bool = True) -> Tensor:
        """Logits (B, T, V), or without the head its input (B, T, D).

        Raises ValueError for a sequence longer than `max_length`.
        """
        length = tokens_BT.shape[1]
        if length > self.max_length:
            raise ValueError(f"a sequence of {length} tokens exceeds max_length={self.max_length}")
        x_ND = self.embed_tokens(tokens_BT.flatten())
        table = self.rotary.of(length, like=x_ND)
        x_ND = run_through(self.layers, x_ND, table, recompute=self.recompute and self.training)
        x_BTD = self.norm(x_ND).view(*tokens_BT.shape, self.hidden)
        out: Tensor = self.lm_head(x_BTD) if head else x_BTD
        return out
