"""The nanoGPT optimization benchmark ("track 3"): its published results, recomputed from its public runs."""
