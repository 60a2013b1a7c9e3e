"""The networks of the paper and a nano size of each, by name: `models.build("llama-60m", vocabulary=32000)`.

Importing this package does not import torch: planning, tables and figures only need the names and the sizes.
"""

from htbench.models.registry import SIZES, ModelSpec, build, count_parameters, spec

__all__ = ["SIZES", "ModelSpec", "build", "count_parameters", "spec"]
