"""What every worker needs, imported once in the forkserver, so that a run starts in a fraction of a second.

Nothing here may run a tensor operation on several threads or touch a GPU: neither survives a fork.
"""

from importlib import import_module

from harness.config import digest

for _name in (
    "omegaconf",
    "harness.cost.update",
    "harness.train.run",
    "harness.data.images",
    "harness.data.text",
    "models.llama",
    "models.resnet",
    "optimizers.assemble",
    "optimizers.muon",
    "sweeps.run.execute",
):
    import_module(_name)

# Each run compares its code with the key that it was planned under; to read and digest that code took .3 s.
digest.everything()
