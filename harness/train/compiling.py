"""What torch.compile has made, kept in the store: the next process of the same workload need not wait for it.

A file holds what one process compiled, for one version of the code, of torch, and one device. It is written
once and whole, and only read afterwards. Inductor's own cache folder would be written by all jobs at a time.
"""

from __future__ import annotations

import hashlib
import logging
import socket
from pathlib import Path

import torch

from harness.config import RunConfig
from harness.system import atomic, environment
from harness.system.folders import make_folder

log = logging.getLogger("htbench")


def artifacts(cache: Path, config: RunConfig, device: torch.device) -> Path:
    """The file of a workload, below the folder of prepared data.

    What is compiled depends on the forward and the backward pass, not on the optimizer.
    """
    part = config.micro_batch or config.batch_size // config.processes
    shapes = (config.task, config.model, part, config.seq_len, config.layout, config.dropout)
    how = (config.precision, config.activation_checkpointing, config.sync_batch_norm, config.threads)
    where = torch.cuda.get_device_name() if device.type == "cuda" else socket.gethostname()
    described = repr((shapes, how, where, torch.__version__, environment.code_version()))
    return cache / "compiled" / f"{hashlib.sha256(described.encode()).hexdigest()[:16]}.bin"


def load(file: Path) -> bool:
    """Give torch what a file holds; return whether there is one. A damaged file is as good as none."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return False
    whole = torch.compiler.load_cache_artifacts(content) is not None
    if not whole:
        log.warning("%s is damaged; the model is compiled again", file)
    return whole


def keep(file: Path) -> None:
    """Write what this process has compiled, unless the file is there. A full disk is no reason to stop."""
    if file.exists():
        return
    made = torch.compiler.save_cache_artifacts()
    if made is None:
        return
    content = made[0]
    try:
        make_folder(file.parent)
        atomic.write_with(file, lambda stream: stream.write(content))
    except OSError as error:
        log.warning("%s can't be written: %s", file, error)
