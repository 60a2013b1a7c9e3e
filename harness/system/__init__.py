"""What the machine and its queue say: files, cores, versions, SLURM, the terminal. Torch-free."""
