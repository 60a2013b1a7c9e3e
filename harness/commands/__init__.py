"""The commands of the harness itself, one file each; those of sweeps and results are in their packages."""
