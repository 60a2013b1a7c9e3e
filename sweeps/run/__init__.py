"""Sweeps on this machine: a pool of processes and who gets the next point."""
