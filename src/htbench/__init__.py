"""htbench: find out which optimizer is really better.

The five packages are `htbench.harness`, `htbench.sweeps`, `htbench.optimizers`, `htbench.models` and
`htbench.results`. In the repository they are the folders at its top, to which links lead from here.

    import htbench
    htbench.log(step=100, val_loss=3.21)  # in a program that a sweep starts: docs/program.md
"""

from htbench.reporting import log as log
