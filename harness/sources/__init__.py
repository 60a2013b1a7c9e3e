"""Which code makes the numbers of a run, and how an edit of it enters the key. Torch-free."""
