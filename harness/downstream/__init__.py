"""How well a trained language model answers multiple-choice questions."""
