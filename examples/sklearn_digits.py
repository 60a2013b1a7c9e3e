"""A program that knows nothing of htbench: scikit-learn's network on its digits, with its own checkpoint."""

import argparse
import pickle
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--solver", default="adam")
parser.add_argument("--lr", type=float, default=0.001)
parser.add_argument("--momentum", type=float, default=0.9)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--out", type=Path, default=Path("."))
args = parser.parse_args()

x, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(x))  # one split for all
train, val, test = np.split(order, [1000, 1400])
rate = {"learning_rate_init": args.lr, "momentum": args.momentum}
model = MLPClassifier((64,), solver=args.solver, random_state=args.seed, **rate)
first, checkpoint = 0, args.out / "checkpoint.pkl"
if checkpoint.exists():
    first, model = pickle.loads(checkpoint.read_bytes())

for epoch in range(first, args.epochs):
    model.partial_fit(x[train] / 16, y[train], classes=range(10))
    val_loss, test_loss = (log_loss(y[part], model.predict_proba(x[part] / 16)) for part in (val, test))
    print(f"epoch {epoch + 1}: val loss {val_loss:.5f}, test loss {test_loss:.5f}", flush=True)
    new = checkpoint.with_suffix(".new")
    new.write_bytes(pickle.dumps((epoch + 1, model)))
    new.replace(checkpoint)
