"""One HTML page on a store: tables, figures, the sweeps and the cost."""
