"""The vision transformer: an image as a sequence of patches, with a class token that the head reads.

Shapes: B batch, C channels, T patches and the class token, D hidden.
Source: Dosovitskiy et al., "An Image is Worth 16x16 Words" (2020), arXiv 2010.11929; the tiny size is that of
Touvron et al. (2020), arXiv 2012.12877; initialisation and head are those of timm's `vit_tiny_patch16_224`.
"""

import torch
from torch import Tensor, nn

from htbench.models.transformer import Block, fused_projections, initialise_linear, run_through

INITIAL_STD = 0.02
CLASS_TOKEN_STD = 1e-6
NORM_EPS = 1e-6


class ViT(nn.Module):
    """Class logits (B, classes) from square images (B, in_channels, image_size, image_size).

    Args:
        hidden: D, a multiple of `heads`.
        intermediate: width of the feed-forward layer.
        heads: of the attention.
        layers: number of blocks.
        patch: side of a patch in pixels.
        image_size: side of an image in pixels, a multiple of `patch`.
        in_channels: channels of an image.
        classes: number of logits.
        dropout: of the embedded patches, of the attention weights, and of what a block adds to its input.
    """

    def __init__(
        self,
        *,
        hidden: int,
        intermediate: int,
        heads: int,
        layers: int,
        patch: int,
        image_size: int,
        in_channels: int,
        classes: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if image_size % patch:
            raise ValueError(f"image_size={image_size} must be a multiple of patch={patch}")
        self.image_size = image_size
        self.recompute = False  # the activations inside blocks, in the backward pass
        self.patches = nn.Conv2d(in_channels, hidden, patch, stride=patch)
        # A vector and an embedding, so that parameter routing sees what they are.
        self.class_token = nn.Parameter(torch.empty(hidden))
        self.positions = nn.Embedding((image_size // patch) ** 2 + 1, hidden)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(hidden, intermediate, heads, eps=NORM_EPS, gelu="none", causal=False, dropout=dropout)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(hidden, eps=NORM_EPS)
        self.head = nn.Linear(hidden, classes)
        nn.init.normal_(self.class_token, std=CLASS_TOKEN_STD)
        nn.init.trunc_normal_(self.positions.weight, std=INITIAL_STD)
        for layer in self.modules():
            initialise_linear(layer, INITIAL_STD, truncated=True)

    def get_output_embeddings(self) -> nn.Module:
        """The layer that produces the logits; parameter routing finds it by this name."""
        return self.head

    def fused_projections(self) -> dict[nn.Parameter, int]:
        """The matrices of queries, keys and values, three projections each."""
        return fused_projections(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, classes). Images may come in float32 whatever the precision of the parameters.

        Raises ValueError for images of another size.
        """
        if images.shape[-2:] != (self.image_size, self.image_size):
            height, width = images.shape[-2:]
            raise ValueError(f"an image of {height}x{width} pixels does not fit image_size={self.image_size}")
        x_BTD = self.patches(images.to(self.head.weight.dtype)).flatten(2).transpose(1, 2)
        start = self.class_token.to(x_BTD.dtype).expand(len(x_BTD), 1, -1)
        x_BTD = self.drop(torch.cat((start, x_BTD), dim=1) + self.positions.weight)
        x_BTD = run_through(self.blocks, x_BTD, recompute=self.recompute and self.training)
        logits: Tensor = self.head(self.norm(x_BTD[:, 0]))  # the norm treats every position by itself
        return logits
