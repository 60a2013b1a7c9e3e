#!/bin/sh
# torch 2.13.0, torch.nn.parallel.DistributedDataParallel over gloo, on a CPU.
#
# Believed: a run that saves weights, optimizer and step, and goes on from them, makes the same numbers as one that was
#   never stopped, if data order and number of processes are the same and all operations are deterministic.
# Seen: with four processes it does not. DDP lays gradients into buckets in the reverse order of the parameters, and after
#   its first backward pass lays them anew in the order in which they came. Where a number stands in a bucket decides in
#   which order the processes add it, so the same batch at the same weights gives other last bits in pass 1 than in passes
#   2, 3, ...: a resumed process makes a first pass once more. With two processes there is only one order.
#   `find_unused_parameters=True` keeps the first buckets, and then the numbers are equal.
# So: compare resumed runs within rounding, or pass `find_unused_parameters=True`, or reduce the gradients yourself.
#
# Exit status 0: as described. 1: the behaviour has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.3.5
cat >"$folder/train.py" <<'PYTHON'
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

STEPS, STOP = 6, 3


class Branches(torch.nn.Module):
    """Layers that are used in another order than they are made."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(6))

    def forward(self, x):
        for i in (3, 0, 5, 1, 4, 2):
            x = x + torch.tanh(self.layers[i](x))
        return x


def gradients(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def work(rank, size, options, port, path):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    dist.init_process_group("gloo", rank=rank, world_size=size)
    torch.set_num_threads(1)
    batch = torch.randn(STEPS, 8, 64, generator=torch.Generator().manual_seed(rank))

    def start():
        torch.manual_seed(0)
        model = Branches()
        return model, DistributedDataParallel(model, **options), torch.optim.SGD(model.parameters(), lr=0.1)

    model, parallel, _ = start()
    passes = []
    for _ in range(3):
        model.zero_grad()
        parallel(batch[0]).square().mean().backward()
        passes.append(gradients(model))

    def train(model, parallel, optimizer, first, last):
        for step in range(first, last):
            optimizer.zero_grad()
            parallel(batch[step]).square().mean().backward()
            optimizer.step()

    whole = start()
    train(*whole, 0, STEPS)
    before = start()
    train(*before, 0, STOP)
    after = start()
    after[0].load_state_dict(before[0].state_dict())
    train(*after, STOP, STEPS)
    weights = [torch.cat([p.detach().flatten() for p in model.parameters()]) for model, *_ in (whole, after)]
    if rank == 0:
        torch.save(
            {
                "pass 1 and 2": int((passes[0] != passes[1]).sum()),
                "pass 2 and 3": int((passes[1] != passes[2]).sum()),
                "resumed and whole": int((weights[0] != weights[1]).sum()),
                "of": len(weights[0]),
            },
            path,
        )
    dist.destroy_process_group()


def main():
    changed = False
    print("torch", torch.__version__, "- numbers that differ:")
    for number, (size, unused) in enumerate([(4, False), (4, True), (2, False)]):
        path = os.path.join(tempfile.gettempdir(), f"ddp-{os.getpid()}-{number}")
        port = str(20000 + (os.getpid() * 7 + number) % 20000)
        mp.spawn(work, (size, {"find_unused_parameters": unused}, port, path), nprocs=size)
        seen = torch.load(path)
        os.remove(path)
        print(f"{size} processes, find_unused_parameters={unused}:", seen)
        differs = seen["pass 1 and 2"] > 0 and seen["resumed and whole"] > 0
        changed |= differs != (size == 4 and not unused) or seen["pass 2 and 3"] > 0
    sys.exit("the behaviour has changed" if changed else 0)


if __name__ == "__main__":
    main()
PYTHON
"$folder/venv/bin/python" "$folder/train.py"
