"""htbench: find out which optimizer is really better.

The five packages are `htbench.harness`, `htbench.sweeps`, `htbench.optimizers`, `htbench.models` and
`htbench.results`. In the repository they are the folders at its top, to which links lead from here.
"""
