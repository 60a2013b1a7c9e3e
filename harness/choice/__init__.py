"""Who wins, and what to try next: numbers in, numbers out, for sweeps and for tables. Torch-free."""
