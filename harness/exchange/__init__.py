"""Finished runs given to trackers of experiments: TensorBoard and Weights & Biases."""
