#!/bin/sh
# torch 2.13.0, FlopCounterMode and any TorchDispatchMode, and layers on the device "meta"; on a CPU.
#
# Believed: to count the operations of one step, or to build a model without memory to read its sizes, costs about as
#   much as the step itself, so that it can be done at every start, on a login node, too.
# Seen: the first operation under a mode imports the whole compiler (torch._dynamo, torch._inductor, sympy: over 700
#   modules), though nothing is compiled: each `__torch_dispatch__` is wrapped in `torch._disable_dynamo`. On two slow
#   cores a process takes 4.7 s in place of 2.7 s. So does `tensor.normal_()` on "meta", as most models draw their first
#   weights; a Linear, which draws by `uniform_`, does not.
# So: where starts count, give the mode a classmethod `_should_skip_dynamo` that returns False (it must not meet compiled
#   code), and leave out normal draws on "meta".
#
# Exit status 0: as described. 1: the behaviour has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import subprocess
import sys
import time

STEP = "layer = torch.nn.Linear(8, 8)\n{under}layer(torch.ones(2, 8)).sum().backward()"
MODE = """
from torch.utils._python_dispatch import TorchDispatchMode
class Mode(TorchDispatchMode):
    {more}
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {{}}))
"""
COUNTER = "from torch.utils.flop_counter import FlopCounterMode\n"
LIGHT = "_should_skip_dynamo = classmethod(lambda cls: False)"
# Whether the compiler is expected to be imported, by what is run.
CASES = {
    "a step": (STEP.format(under=""), False),
    "a step in FlopCounterMode": (COUNTER + STEP.format(under="with FlopCounterMode(display=False): "), True),
    "a step in a mode that does nothing": (MODE.format(more="") + STEP.format(under="with Mode(): "), True),
    "the same, _should_skip_dynamo False": (MODE.format(more=LIGHT) + STEP.format(under="with Mode(): "), False),
    "Linear on meta": ("with torch.device('meta'): torch.nn.Linear(8, 8)", False),
    "normal_ on meta": ("torch.empty(8, device='meta').normal_()", True),
}
END = "\nimport sys; print(len(sys.modules), int('torch._dynamo' in sys.modules))"
changed = False
for name, (code, expected) in CASES.items():
    began = time.time()
    run = subprocess.run([sys.executable, "-c", f"import torch\n{code}{END}"], capture_output=True, text=True, check=True)
    modules, compiler = map(int, run.stdout.split())
    print(f"{name:36} {modules:5} modules, compiler {'imported' if compiler else 'not imported':12} {time.time() - began:.1f} s")
    changed |= bool(compiler) != expected
sys.exit("the behaviour has changed" if changed else 0)
PYTHON
