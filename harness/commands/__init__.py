"""The commands that belong to no package above the harness, one file each."""
