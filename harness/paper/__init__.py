"""The paper as data: its published numbers, grids, models and protocol, and its experiments at each scale."""
