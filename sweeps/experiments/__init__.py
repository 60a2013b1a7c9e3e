"""The experiments of the paper as sweep files: one list makes those of every scale."""
