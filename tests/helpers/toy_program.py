"""A program that is not ours, and its sweep file: it trains nothing, and is as quick as its PAUSE."""

import sys

# A loss with its minimum at lr = .1; `quick` is .2 better; it saves each step, and may be slow.
TRAIN = """
import os, pathlib, sys, time
args = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
place = pathlib.Path(args["out"], "step")
for step in range(1 + (int(place.read_text()) if place.exists() else 0), 5):
    time.sleep(float(os.environ.get("PAUSE", "0")))
    noise = int(os.environ["HTBENCH_SEED"]) % 7 / 1000
    loss = abs(float(args["lr"]) - 0.1) + 1 / step + noise - 0.2 * (args["rule"] == "quick")
    print(f"step {step}: val {loss:.6f} test {loss + 1:.6f}", flush=True)
    place.write_text(str(step))
"""
SPEC = """
name: tiny
program:
  command: "PYTHON train.py {args} --out={run_dir}"
  log: ['step (?P<step>\\d+): val (?P<val_loss>\\S+) test (?P<test_loss>\\S+)']
  report: test_loss
  resume: self
base: {task: toy, model: none, width: 4}
blocks:
  - {name: plain, set: {rule: plain}, space: {lr: [0.05, 0.1, 0.2]}}
  - {name: quick, set: {rule: quick}, space: {lr: [0.05, 0.1, 0.2]}}
replicate: {seeds: 3}
""".replace("PYTHON", sys.executable)
