"""The Hugging Face hub: whether it answers, and its files. Nothing else in the harness uses the network."""

from __future__ import annotations

import contextlib
import os
import threading
import urllib.error
import urllib.request
from pathlib import Path

from harness.errors import UsageError

PATIENCE = 4.0  # seconds for an answer; name servers that are down take longer to say so
_TRUE = ("1", "ON", "YES", "TRUE")  # as huggingface_hub reads its variables


def endpoint() -> str:
    """The address of the hub or of a mirror (HF_ENDPOINT)."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def obstacle() -> str:
    """Why nothing can be fetched; empty if the hub answers. Takes PATIENCE at most."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        if os.environ.get(name, "").upper() in _TRUE:
            return f"{name} is set"
    answered = threading.Event()
    # A thread, since looking up a name can't be given a time limit.
    threading.Thread(target=_knock, args=(answered,), daemon=True).start()
    return "" if answered.wait(PATIENCE) else f"{endpoint()} can't be reached"


def _knock(answered: threading.Event) -> None:
    with contextlib.suppress(OSError, ValueError):
        try:  # through a proxy, if the environment names one
            urllib.request.urlopen(
                urllib.request.Request(endpoint(), method="HEAD"), timeout=PATIENCE
            ).close()
        except urllib.error.HTTPError:
            pass  # also an answer
        answered.set()


def fetch(repository: str, revision: str, name: str, folder: Path, kind: str = "dataset") -> Path:
    """Download one file into `folder`, going on with what a killed call has left there.

    Args:
        repository: "owner/name".
        revision: a commit, a branch or a tag.
        name: of the file in the repository; its subfolder is kept.
        folder: gets the file.
        kind: "dataset" or "model".

    Raises:
        UsageError: it can't be had; the sentence has the hub's reason.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from huggingface_hub import hf_hub_download

    try:
        return Path(
            hf_hub_download(repository, name, repo_type=kind, revision=revision, local_dir=str(folder))
        )
    except Exception as error:  # the hub has some twenty kinds
        said = str(error).strip().splitlines() or [""]
        raise UsageError(
            f"'{name}' of {repository} can't be fetched ({type(error).__name__}: {said[0]}); "
            f"the same command goes on from here."
        ) from None
