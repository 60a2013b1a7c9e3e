"""Heavy-tail metrics of weights: spectra of layers, power-law fits, norms."""
