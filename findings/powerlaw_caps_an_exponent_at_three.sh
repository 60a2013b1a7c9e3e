#!/bin/sh
# powerlaw 2.0.0, Fit(data), beside 1.5.
#
# Believed: the new release fits a power law as the old one did: alpha is the estimate of greatest likelihood.
# Seen: 2.0.0 searches alpha in [0, 3] by default. Heavy-tail studies of weights compare exponents of 2 to 6: all above 3 become
#   3.000, and since nothing fits at 3, the tail is cut to its far end (xmin 1.16 becomes 1.95). Warnings say that "no valid values
#   for xmin" were found, and that parameters are close to an edge, among thousands that say something else; scripts of this
#   field silence them. 1.5 gives 3.87 and 5.78 for the 500 draws from 4 and 6 below.
# So: `Fit(data, parameter_ranges={"alpha": [1.01, 20]})`, or stay with 1.5. An alpha of 3.00 in a table is none.
#
# Exit status 0: as described. 1: the behaviour has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/fit.py" <<'PYTHON'
import sys
import warnings

import numpy as np
import powerlaw

warnings.simplefilter("ignore")
ranges = {"parameter_ranges": {"alpha": [1.01, 20]}} if sys.argv[1] == "wide" else {}
for true in (2.5, 4.0, 6.0):
    draws = (1 - np.random.default_rng(0).random(500)) ** (-1 / (true - 1))
    fit = powerlaw.Fit(draws, verbose=False, **ranges)
    print(f"{true} {fit.power_law.alpha:.3f} {fit.xmin:.3f}")
PYTHON
for version in 1.5 2.0.0; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install -q powerlaw==$version numpy==2.4.6 scipy==1.17.1
done
"$folder/1.5/bin/python" "$folder/fit.py" default 2> "$folder/log" | tr '\r' '\n' | grep '^[0-9]' | tee "$folder/old" |
    sed 's/^/powerlaw 1.5, true, alpha, xmin: /'
"$folder/2.0.0/bin/python" "$folder/fit.py" default 2> "$folder/log" | tee "$folder/new" | sed 's/^/powerlaw 2.0.0, true, alpha, xmin: /'
"$folder/2.0.0/bin/python" "$folder/fit.py" wide 2> "$folder/log" | tee "$folder/wide" | sed 's/^/with a wide range: /'
capped=$(awk '$1 > 3 && $2 == "3.000"' "$folder/new" | wc -l)
right=$(cat "$folder/old" "$folder/wide" | awk '$1 > 3 && $2 > 3.5' | wc -l)
if [ "$capped" != 2 ] || [ "$right" != 4 ]; then
    echo "the behaviour has changed" >&2
    exit 1
fi
