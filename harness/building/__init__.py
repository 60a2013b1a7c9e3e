"""From a config to the model that a run trains, and to its optimizer."""
