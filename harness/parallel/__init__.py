"""The processes of one run, and the device on which each computes."""
