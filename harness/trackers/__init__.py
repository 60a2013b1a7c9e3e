"""Finished runs leave for the trackers that other people look at: TensorBoard, mlflow, W&B, trackio."""
