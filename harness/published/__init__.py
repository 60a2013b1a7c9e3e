"""The published data sets of the paper as tasks: how their prepared copies are read."""
