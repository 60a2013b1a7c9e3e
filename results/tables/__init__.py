"""The tables by name, and their footnotes."""
