"""One run, from the claim to the record: the loop, its schedule, checkpoints and rules."""
