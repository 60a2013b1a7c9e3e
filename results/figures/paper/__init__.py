"""The figures of the paper, from published numbers or from our runs of its experiments at any scale."""
