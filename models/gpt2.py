"""GPT-2: learned positions, LayerNorm before each half of a block, GELU, biases, tied head.

Shapes: B batch, T sequence, D hidden, V vocabulary.
Source: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019). The initialisation is
that of the Hugging Face model: 0.02, and 0.02 / sqrt(2 layers) for matrices that add to the residual stream.
"""

import math

from torch import Tensor, nn

from htbench.models.transformer import Block, fused_projections, initialise_linear, run_through

INITIAL_STD = 0.02
NORM_EPS = 1e-5


class GPT2(nn.Module):
    """Next-token logits (B, T, V) from tokens (B, T).

    Args:
        vocabulary: V, rows of the embedding, which is the head's matrix, too.
        hidden: D, a multiple of `heads`.
        intermediate: width of the feed-forward layer.
        heads: of the attention.
        layers: number of blocks.
        max_length: longest sequence accepted, rows of the table of positions.
        dropout: of the embedded tokens, of the attention weights, and of what a block adds to its input.
    """

    splits_head = True  # `forward(tokens, head=False)` leaves the head to the loss

    def __init__(
        self,
        *,
        vocabulary: int,
        hidden: int,
        intermediate: int,
        heads: int,
        layers: int,
        max_length: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.max_length = max_length
        self.recompute = False  # the activations inside blocks, in the backward pass
        self.wte = nn.Embedding(vocabulary, hidden)
        self.wpe = nn.Embedding(max_length, hidden)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(hidden, intermediate, heads, eps=NORM_EPS, gelu="tanh", causal=True, dropout=dropout)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(hidden, eps=NORM_EPS)
        self.lm_head = nn.Linear(hidden, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight
        self._initialise()

    def _initialise(self) -> None:
        for embedding in (self.wte, self.wpe):
            nn.init.normal_(embedding.weight, std=INITIAL_STD)
        for name, layer in self.blocks.named_modules():
            adds = name.endswith(("attn.proj", "mlp.2"))  # to the residual stream
            initialise_linear(layer, INITIAL_STD / math.sqrt(2 * len(self.blocks)) if adds else INITIAL_STD)

    def get_output_embeddings(self) -> nn.Module:
        """The layer that produces the logits; parameter routing finds it by this name."""
        return self.lm_head

    def fused_projections(self) -> dict[nn.Parameter, int]:
        """The matrices of queries, keys and values, three projections each."""
        return fused_projections(self)

    def forward(self, tokens_BT: Tensor, head: bool = True) -> Tensor:
        """Logits (B, T, V), or without the head its input (B, T, D).

        Raises ValueError for a sequence longer than `max_length`.
        """
        length = tokens_BT.shape[1]
        if length > self.max_length:
            raise ValueError(f"a sequence of {length} tokens exceeds max_length={self.max_length}")
        x_BTD = self.drop(self.wte(tokens_BT) + self.wpe.weight[:length])
        x_BTD = run_through(self.blocks, x_BTD, recompute=self.recompute and self.training)
        x_BTD = self.norm(x_BTD)
        out: Tensor = self.lm_head(x_BTD) if head else x_BTD
        return out
