"""One HTML page on a store: tables, figures, the runs behind each cell with their curves, and the cost."""
