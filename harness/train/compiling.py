"""Where torch keeps what `torch.compile` makes, so that the next process of a workload need not wait for it.

What lies there is executed when it is loaded. torch's usual folder, `/tmp/torchinductor_USER`, has a name
that anybody may take first; ours is `$XDG_CACHE_HOME/htbench/inductor` (`~/.cache/...`), and is used only
while nobody else can write there. It never lies in a store, which others write to and people unpack.
"""

import logging
import os
import stat
import tempfile
from pathlib import Path

log = logging.getLogger("htbench")


def use_cache_of_user() -> None:
    """Set the folder for this process and its children, unless TORCHINDUCTOR_CACHE_DIR names one."""
    if "TORCHINDUCTOR_CACHE_DIR" in os.environ:
        return
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    folder = caches / "htbench" / "inductor"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        log.warning("others can write into %s, so nothing compiled is kept there", folder)
        folder = Path(tempfile.mkdtemp())
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
