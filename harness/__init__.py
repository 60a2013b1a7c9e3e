"""Trains one run and owns its record: config, store, data, the training loop and the `htbench` command."""
