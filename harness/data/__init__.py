"""Where the numbers that models learn from come from: reading, splitting, caching, batching, held-out evaluation.

`task.py`, `text.py` and `images.py` need torch; everything else here works without it.
"""
