"""Many runs: a YAML sweep becomes points, points become runs on this machine or on SLURM.

CONTRIBUTING.md has the words (point, slot, trial, objective, replica) and the life of a point.
"""
