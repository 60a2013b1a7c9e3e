"""What every worker needs, imported once in the forkserver, so that a run starts in a fraction of a second.

Nothing here may run a tensor operation on several threads or touch a GPU: neither survives a fork.
"""

from importlib import import_module

from htbench.harness.config import digest
from htbench.harness.system import environment, machine

for _name in (
    "omegaconf",
    "htbench.harness.cost.update",
    "htbench.harness.train.run",
    "htbench.harness.data.images",
    "htbench.harness.data.text",
    "htbench.models.llama",
    "htbench.models.resnet",
    "htbench.optimizers.assemble",
    "htbench.optimizers.muon",
    "htbench.sweeps.run.execute",
):
    import_module(_name)

# Each run compares its code with the key that it was planned under; to read and digest that code took .3 s.
digest.everything()
environment.describe("cpu", "")  # which keeps the versions of libraries, to be told in each record
machine.keep_memory()  # before a stack's threads begin
