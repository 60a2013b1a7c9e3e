#!/bin/sh
# torch 2.13.0, torch.optim and its schedulers, on a CPU.
#
# Believed: a learning rate may be a tensor (documented for compiled steps), and a scheduler with a rate for each group
#   (LambdaLR with a list of functions, OneCycleLR with a list of max_lr) then does what it does with a float.
# Seen: groups that leave "lr" open get the one tensor of the constructor, all the same object. A scheduler writes into it
#   in place, group after group, so every group ends with the rate of the last one, without a word. In the case below the
#   last group is to be frozen: the first one stops, too. With a float it trains.
# So: give each group a tensor of its own, {"params": ..., "lr": torch.tensor(0.1)}.
#
# Exit status 0: as described. 1: the behaviour has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import torch
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR


def rates_after_a_step(cls, scheduler, lr, apart=False):
    body, head = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
    groups = [{"params": [body]}, {"params": [head]}]
    for group in groups:
        if apart:
            group["lr"] = lr.clone()
    optimizer = cls(groups, lr=lr)
    schedule = scheduler(optimizer)
    (body.sum() + head.sum()).backward()
    optimizer.step()
    schedule.step()
    return [round(float(group["lr"]), 6) for group in optimizer.param_groups]


def frozen_head(optimizer):
    return LambdaLR(optimizer, [lambda step: 1.0, lambda step: 0.0 if step else 1.0])


def two_cycles(optimizer):
    return OneCycleLR(optimizer, max_lr=[0.1, 0.001], total_steps=10)


changed = False
print("torch", torch.__version__)
for cls in (torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop):
    for name, scheduler in (("LambdaLR", frozen_head), ("OneCycleLR", two_cycles)):
        plain = rates_after_a_step(cls, scheduler, 0.1)
        shared = rates_after_a_step(cls, scheduler, torch.tensor(0.1))
        apart = rates_after_a_step(cls, scheduler, torch.tensor(0.1), apart=True)
        print(f"{cls.__name__:8} {name:10} float {plain}  tensor {shared}  a tensor for each group {apart}")
        changed |= not (plain[0] > plain[1] and shared == [plain[1]] * 2 and apart == plain)
sys.exit("the behaviour has changed" if changed else 0)
PYTHON
