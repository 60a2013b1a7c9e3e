"""Time and memory of a run, estimated before it starts."""
