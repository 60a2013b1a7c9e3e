"""A program that is not ours, and its sweep file: it trains nothing, and is as quick as its PAUSE."""

import shutil
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "sklearn_digits.yaml"

# A loss with its minimum at lr = .1; `quick` is .2 better; it saves each step and may be slow. Its first
# attempt may wait after a step to be killed.
TRAIN = """
import os, pathlib, sys, time
args = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
place = pathlib.Path(args["out"], "step")

def hold(step):
    if os.environ.get("HOLD") == str(step) and os.environ["HTBENCH_ATTEMPT"] == "1":
        time.sleep(600)

hold(0)
for step in range(1 + (int(place.read_text()) if place.exists() else 0), 5):
    time.sleep(float(os.environ.get("PAUSE", "0")))
    noise = int(os.environ["HTBENCH_SEED"]) % 7 / 1000
    loss = abs(float(args["lr"]) - 0.1) + 1 / step + noise - 0.2 * (args["rule"] == "quick")
    print(f"step {step}: val {loss:.6f} test {loss + 1:.6f}", flush=True)
    place.write_text(str(step))
    hold(step)
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

# Two processes of torchrun with one model: the first reports and saves, however often both are killed.
TWO_PROCESSES = """
import htbench, os, sys, time, torch, torch.distributed as dist
args = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
dist.init_process_group("gloo")
torch.manual_seed(int(os.environ["HTBENCH_SEED"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=float(args["lr"]))
place, first = os.path.join(args["out"], "state.bin"), 1
if os.path.exists(place):
    state = torch.load(place)
    first = state["step"] + 1
    model.load_state_dict(state["model"])
for step in range(first, 9):
    time.sleep(float(os.environ.get("PAUSE", "0")))
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(2 * step + dist.get_rank()))
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    htbench.log(step=step, val_loss=loss)
    if dist.get_rank() == 0:
        torch.save({"step": step, "model": model.state_dict()}, place + ".new")
        os.replace(place + ".new", place)
    dist.barrier()
"""
TWO_PROCESSES_SPEC = """
name: two
program:
  command: "PYTHON -m torch.distributed.run --standalone --nproc_per_node=2 train.py {args} --out={run_dir}"
  resume: self
base: {task: toy, model: linear}
blocks: [{name: sgd, space: {lr: [0.03, 0.1]}}]
""".replace("PYTHON", sys.executable)

# JAX with optax, whose Muon stands against its Adam; no checkpoint, as it takes seconds.
JAX = """
import argparse, os
import htbench, jax, jax.numpy as jnp, numpy, optax
from sklearn.datasets import load_digits
parser = argparse.ArgumentParser()
parser.add_argument("--rule")
parser.add_argument("--lr", type=float)
args = parser.parse_args()
x, y = map(jnp.asarray, load_digits(return_X_y=True))
train, val, test = jnp.split(numpy.random.default_rng(0).permutation(len(x)), [1000, 1400])
first, second = jax.random.split(jax.random.PRNGKey(int(os.environ["HTBENCH_SEED"])))
weights = {"in": jax.random.normal(first, (64, 64)) / 8, "out": jax.random.normal(second, (64, 10)) / 8}

def loss(weights, part):
    logits = jnp.tanh(x[part] / 16 @ weights["in"]) @ weights["out"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y[part]).mean()

rule = {"adam": optax.adam, "muon": optax.contrib.muon}[args.rule](args.lr)

@jax.jit
def advance(weights, state):
    updates, state = rule.update(jax.grad(loss)(weights, train), state, weights)
    return optax.apply_updates(weights, updates), state

state = rule.init(weights)
for step in range(1, 61):
    weights, state = advance(weights, state)
    if step % 20 == 0:
        htbench.log(step=step, val_loss=loss(weights, val), test_loss=loss(weights, test))
"""
JAX_SPEC = """
name: jax-digits
program: {command: "PYTHON train.py {args}", report: test_loss, env: {OUT: "{run_dir}"}}
base: {task: digits-jax, model: mlp}
blocks:
  - {name: adam, set: {rule: adam}, space: {lr: [0.01, 0.03]}}
  - {name: muon, set: {rule: muon}, space: {lr: [0.03, 0.1]}}
replicate: {seeds: 2}
""".replace("PYTHON", sys.executable)


def write_scikit_learn(folder, more=""):
    """The example of scikit-learn with fewer settings: the path of its sweep file in a folder."""
    shutil.copy(EXAMPLE.with_suffix(".py"), folder)
    spec = folder / EXAMPLE.name
    spec.write_text(
        EXAMPLE.read_text()
        .replace("python ", f"{sys.executable} ")
        .replace("[0.002, 0.004, 0.008]", "[0.004, 0.008]")
        .replace("{lr: [0.05, 0.1, 0.2], momentum: [0.9, 0.95]}", "{lr: [0.1]}")
        .replace("seeds: 3", "seeds: 2")
        + more
    )
    return spec
