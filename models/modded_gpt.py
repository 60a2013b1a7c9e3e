"""The GPT of modded-nanogpt's optimizer benchmark ("track 3"): rotary positions, QK norm, squared ReLU.

The head is not tied. Every linear layer has a bias, and the residual stream has the precision of the matrix
products. The head, and the matrices whose output is added to the stream, begin at zero.

Shapes: B batch, T sequence, D hidden, H heads, K head size (D / H), V vocabulary; N = B T.
Source: https://github.com/KellerJordan/modded-nanogpt, `records/track_3_optimization/train_gpt_simple.py`.
There the embedding is stored in bfloat16; here it is rounded to it where it is read, under autocast.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from htbench.models.llama import Attention, RotaryTable
from htbench.models.transformer import run_through

NORM_EPS = torch.finfo(torch.float32).eps
ROPE_BASE = 1024.0
ATTENTION_SCALE = 0.12  # of the products of queries and keys, which have a norm of sqrt(K)
SOFTCAP = 15.0  # bound of the logits
INITIAL_GAIN = math.sqrt(0.33)  # times 1 / sqrt(columns): about what `nn.Linear` draws, but Gaussian


class RMSNorm(nn.RMSNorm):
    """A norm whose gains follow the precision of its input."""

    def forward(self, x: Tensor) -> Tensor:
        """As x."""
        return F.rms_norm(x, (x.shape[-1],), self.weight.type_as(x), NORM_EPS)


class SquaredReLU(nn.Module):
    """max(x, 0)^2. Source: So et al., "Primer" (2021), arXiv 2109.08668."""

    def forward(self, x: Tensor) -> Tensor:
        """As x."""
        return F.relu(x).square()


class Block(nn.Module):
    """Pre-norm attention and feed-forward layer, each added to the residual stream."""

    def __init__(self, hidden: int, intermediate: int, heads: int) -> None:
        super().__init__()
        self.norm1 = RMSNorm(hidden)
        self.attn = Attention(hidden, heads, bias=True, qk_norm=True, scale=ATTENTION_SCALE)
        self.norm2 = RMSNorm(hidden)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, intermediate), SquaredReLU(), nn.Linear(intermediate, hidden)
        )

    def forward(self, x_ND: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """(N, D) -> (N, D)."""
        x_ND = x_ND + self.attn(self.norm1(x_ND), table)
        out: Tensor = x_ND + self.mlp(self.norm2(x_ND))
        return out


class ModdedGPT(nn.Module):
    """Next-token logits (B, T, V) from tokens (B, T), in float32 at least.

    Args:
        vocabulary: V, rows of the embedding and of the head.
        hidden: D, must be `heads` times a multiple of four.
        intermediate: width of the feed-forward layer.
        heads: H.
        layers: number of blocks.
        max_length: longest sequence accepted. Nothing is allocated for it: it states what we train on.
    """

    def __init__(
        self, *, vocabulary: int, hidden: int, intermediate: int, heads: int, layers: int, max_length: int
    ) -> None:
        super().__init__()
        if hidden % (4 * heads):
            raise ValueError(f"hidden={hidden} must be a multiple of 4 * heads = {4 * heads}")
        self.heads, self.head_size = heads, hidden // heads
        self.rotary = RotaryTable(half_rotary_table, heads, self.head_size)
        self.max_length = max_length
        self.recompute = False  # the activations inside blocks, in the backward pass
        self.embed_tokens = nn.Embedding(vocabulary, hidden)
        self.norm1 = RMSNorm(hidden)
        self.blocks = nn.ModuleList(Block(hidden, intermediate, heads) for _ in range(layers))
        self.norm2 = RMSNorm(hidden)
        self.lm_head = nn.Linear(hidden, vocabulary)
        self._initialise()

    def _initialise(self) -> None:
        nn.init.normal_(self.embed_tokens.weight)
        for name, layer in self.named_modules():
            if isinstance(layer, nn.Linear):
                nn.init.zeros_(layer.bias)
                nn.init.normal_(layer.weight, std=INITIAL_GAIN / math.sqrt(layer.in_features))
                if name.endswith(("attn.o_proj", "mlp.2", "lm_head")):
                    nn.init.zeros_(layer.weight)

    def get_output_embeddings(self) -> nn.Module:
        """The layer that produces the logits; parameter routing finds it by this name."""
        return self.lm_head

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Logits (B, T, V). Raises ValueError for a sequence longer than `max_length`."""
        length = tokens_BT.shape[1]
        if length > self.max_length:
            raise ValueError(f"a sequence of {length} tokens exceeds max_length={self.max_length}")
        x_ND = self.embed_tokens(tokens_BT.flatten())
        if torch.is_autocast_enabled(x_ND.device.type):
            x_ND = x_ND.to(torch.get_autocast_dtype(x_ND.device.type))
        table = self.rotary.of(length, like=x_ND)
        x_ND = self.norm1(x_ND)
        x_ND = run_through(self.blocks, x_ND, table, recompute=self.recompute and self.training)
        z_BTV = self.lm_head(self.norm2(x_ND).view(*tokens_BT.shape, -1))
        z_BTV = z_BTV.to(torch.promote_types(z_BTV.dtype, torch.float32))
        capped: Tensor = SOFTCAP * z_BTV * (z_BTV.square() + SOFTCAP**2).rsqrt()
        return capped


def half_rotary_table(length: int, head_size: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine (T, K/2), as of `models.llama`, where half of the pairs stay as they are.

    The others have frequencies from 1 down to 1 / 1024, geometrically. They turn the other way round than
    LLaMA's, as there.
    """
    dtype, device = torch.promote_types(like.dtype, torch.float32), like.device
    turning = ROPE_BASE ** -torch.linspace(0, 1, head_size // 4, device=device, dtype=dtype)
    positions = torch.arange(length, device=device, dtype=dtype)
    angles = torch.outer(positions, -torch.cat((turning, torch.zeros_like(turning))))
    return angles.cos(), angles.sin()
