"""The package works where nothing but torch and what torch itself requires is installed."""

import subprocess
import sys
import sysconfig
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

import htbench
from htbench import optimizers

PROGRAM = """
import importlib.util, sys
sys.path[:] = {path!r}
from htbench import optimizers
from htbench.optimizers import ZOO, build, resolve
assert set(optimizers.__all__) <= set(dir(optimizers)), "classes are listed before they are imported"
assert "torch" not in sys.modules, "importing the table must not import torch"
for absent in ("numpy", "pandas", "optuna", "omegaconf", "harness", "models"):
    assert importlib.util.find_spec(absent) is None, absent
import torch
torch.set_num_threads(1)
for name in ZOO:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x, before = torch.randn(32, 5), net[0].weight.detach().clone()
    optimizer = build(name, net, lr=0.02, **resolve(name, {{}}))
    for _ in range(3):
        loss = (net(x).squeeze() - x.sin().sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert net[0].weight.isfinite().all() and not torch.equal(net[0].weight, before), name
    print(name)
from htbench.optimizers import Hybrid, Muon, UpdateRule, svd_power
"""


def closure(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """The distribution and all that it requires here, extras left out."""
    if name not in found:
        found[name] = distribution(name)
        for line in found[name].requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                closure(requirement.name, found)
    return found


def link(installed: Distribution, folder: Path) -> None:
    """Link the top-level packages and modules of a distribution into the folder."""
    for file in installed.files or []:
        if file.parts[0] not in ("..", "__pycache__") and not (folder / file.parts[0]).exists():
            (folder / file.parts[0]).symlink_to(installed.locate_file(file.parts[0]))


def test_every_row_steps_with_torch_alone(tmp_path: Path) -> None:
    site, ours = tmp_path / "site", tmp_path / "ours"
    site.mkdir(), ours.mkdir()
    for installed in closure("torch", {}).values():
        link(installed, site)
    (ours / "htbench").symlink_to(Path(htbench.__file__).parent)
    standard = [
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
        sysconfig.get_config_var("DESTSHARED"),
    ]
    program = PROGRAM.format(path=[*standard, str(site), str(ours)])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == list(optimizers.ZOO)
