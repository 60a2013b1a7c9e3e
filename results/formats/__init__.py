"""Cells and rows, and the formats that a table is printed in."""
