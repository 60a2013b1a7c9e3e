"""What is measured by `htbench bench`: the harness, the optimizers, and the maps of singular values."""
