"""The README's own optimizer in a user's folder, for the tests of sweeps and those on the cluster."""

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SWEEP = """
name: own
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16}
blocks:
  - {name: adamw, set: {optimizer.name: adamw}, space: {optimizer.lr: [0.01, 0.03]}}
  - {name: radam, set: {optimizer.name: "torch.optim:RAdam"}, space: {optimizer.lr: [0.01, 0.03]}}
"""


def optimizer():
    """The file `my_opt.py` as the README has it."""
    (text,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return text


def block():
    """The line of the sweep file that compares it, as the README has it."""
    (line,) = re.findall(r"^#  (- \{name: mine, .*\})$", README, re.MULTILINE)
    return line


def lay_out(folder, sweep=SWEEP):
    """What a user has in a folder: an optimizer and a sweep file; returns the two."""
    folder.mkdir(exist_ok=True)
    part, spec = folder / "my_opt.py", folder / "own.yaml"
    part.write_text(optimizer())
    spec.write_text(f"{sweep}  {block()}\n")
    return part, spec
