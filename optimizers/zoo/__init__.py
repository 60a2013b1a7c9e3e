"""The table of optimizers and their hyperparameters. Standard library only."""
