"""What torch.compile has made, kept for the user: the next process of the same workload need not wait for it.

A file holds what one process compiled, for one version of the code, of torch, and one device. It is written
once and whole, and only read afterwards. Inductor's own cache folder would be written by all jobs at a time.

To load such a file is to execute it: it has machine code and pickles. So it never lies in a store, which
others write to and people unpack, but in `$XDG_CACHE_HOME/htbench/compiled` (`~/.cache/...`), and is used
only while nobody else can write there.
"""

import hashlib
import logging
import os
import socket
import stat
from pathlib import Path

import torch

from harness.config import RunConfig
from harness.system import atomic, environment

log = logging.getLogger("htbench")


def artifacts(config: RunConfig, device: torch.device) -> Path:
    """The file of a workload.

    What is compiled depends on the forward and the backward pass, not on the optimizer.
    """
    part = config.micro_batch or config.batch_size // config.processes
    shapes = (config.task, config.model, part, config.seq_len, config.layout, config.dropout)
    how = (config.precision, config.activation_checkpointing, config.sync_batch_norm, config.threads)
    where = socket.gethostname()
    if device.type == "cuda":  # the code for a GPU names its number
        where = f"{torch.cuda.get_device_name()} {torch.cuda.current_device()}"
    described = repr((shapes, how, where, torch.__version__, environment.code_version()))
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return caches / "htbench" / "compiled" / f"{hashlib.sha256(described.encode()).hexdigest()[:16]}.bin"


def load(file: Path) -> bool:
    """Give torch what a file holds; return whether there is one. A damaged file is as good as none."""
    if not file.exists() or not _is_private(file.parent):
        return False
    whole = torch.compiler.load_cache_artifacts(file.read_bytes()) is not None
    if not whole:
        log.warning("%s is damaged; the model is compiled again", file)
    return whole


def keep(file: Path) -> None:
    """Write what this process has compiled, unless the file has as much. A full disk is no reason to stop."""
    made = torch.compiler.save_cache_artifacts()
    if made is None:
        return
    content = made[0]
    try:
        if file.exists() and file.stat().st_size >= len(content):
            return
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_private(file.parent):
            atomic.write_with(file, lambda stream: stream.write(content))
    except OSError as error:
        log.warning("%s can't be written: %s", file, error)


def _is_private(folder: Path) -> bool:
    """Whether a folder is ours, and nobody else can write into it; says so if not."""
    found = folder.stat()
    private = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not private:
        log.warning("others can write into %s, so nothing compiled is kept there", folder)
    return private
