"""Sweeps on SLURM: job arrays, the queue, submissions. The only room that imports submitit."""
