"""Data of the tasks: preparing, reading, splitting, caching, batching, held-out evaluation.

`task.py`, `text.py` and `images.py` need torch; everything else here works without it.
"""
