"""What every worker needs, imported once in the forkserver, so that a run starts in a fraction of a second.

Nothing here may start a thread or touch a GPU: neither survives a fork.
"""

import torch

import optimizers.muon  # noqa: F401

# The first optimizer that is built imports half of torch (torch._dynamo and what it needs).
torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
