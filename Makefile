# What takes long and is done by hand; all else is in the README and CONTRIBUTING.

MINUTES ?= 20

soak:  ## sweeps under fire on the SLURM test cluster for MINUTES; docs/cluster.md keeps a log
	HTBENCH_SOAK_MINUTES=$(MINUTES) tests/slurm/run -k chaos -rP

.PHONY: soak
