#!/bin/sh
# torch 2.13.0 on a CPU, x86.
#
# Believed: `torch.set_flush_denormal(True)` is a switch of the process, as its name and its answer True say: from then on
#   results below the smallest normal number (1.2e-38 in float32) are zero. It is what one is told to call where training
#   on a CPU gets slow: with rates that are too high softmax and its gradients are full of such numbers, with which
#   a processor is far slower.
# Seen: it switches the thread that calls it, and threads that are started later. PyTorch starts its worker threads with
#   the first large operation, so often while the model is built. Called after that, the answer is True, too, but only the
#   caller's part of each tensor is flushed: with two threads the second half of a product keeps its tiny values, and
#   half of a matrix product does. Switched off again, the threads that were started with it go on flushing.
#   So numbers and times depend on the order of two lines, on the number of threads and on the place in a tensor.
# So: call it before any other work with tensors, or use one thread.
#
# Exit status 0: as described. 1: the behaviour has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.3.5
cat > "$folder/flush.py" <<'PYTHON'
import sys

import torch

SIZE = 1_000_000
order, threads = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(threads)


def tiny_values_left():
    """How many of so many halves of the smallest normal number are not zero, and the first of them."""
    halves = torch.full((SIZE,), torch.finfo(torch.float32).tiny) * 0.5
    return int((halves != 0).sum()), int((halves != 0).int().argmax())


if order == "late":
    torch.ones(SIZE).mul(2)  # starts the worker threads
assert torch.set_flush_denormal(True)
left, first = tiny_values_left()
assert torch.set_flush_denormal(False)
after, _ = tiny_values_left()
print(left, first, after)
PYTHON
run() { "$folder/venv/bin/python" "$folder/flush.py" "$1" "$2"; }
changed=0
expect() { # when, threads, expected
    seen=$(run "$1" "$2")
    echo "$1, threads $2: tiny values left after True, the first of them, left after False again: $seen"
    [ "$seen" = "$3" ] || changed=1
}
expect early 1 "0 0 1000000"
expect late 1 "0 0 1000000"
expect early 2 "0 0 500000"
expect late 2 "500000 500000 1000000"
[ $changed -eq 0 ] || { echo "the behaviour has changed" >&2; exit 1; }
