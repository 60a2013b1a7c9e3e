"""A trained language model of the store: what it was built with, its weights, and the module with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from htbench import models
from htbench.harness.errors import UsageError
from htbench.harness.store import Store
from htbench.harness.store.record import RunRecord
from htbench.harness.store.run_folder import RunFolder
from htbench.harness.train.checkpoint import load_weights
from htbench.models.families import FAMILIES, Family, family


@dataclass(frozen=True)
class Trained:
    """One run's model.

    Attributes:
        key: of the run.
        files: its folder.
        config: of the run, nested, as stored.
        record: None if the run has not ended.
        family: of the model.
        settings: all that the model was built with.
        state: its state_dict, on the CPU.
        step: of the checkpoint that the weights are from; None: they are the final ones.
    """

    key: str
    files: RunFolder
    config: Mapping[str, Any]
    record: RunRecord | None
    family: Family
    settings: Mapping[str, Any]
    state: Mapping[str, Tensor]
    step: int | None

    @classmethod
    def load(cls, store: Store, word: str) -> Trained:
        """The model of the run whose key begins with `word`.

        Raises:
            UsageError: there is no such run, it is no language model of ours, or it has kept no weights.
        """
        key = store.find(word)
        files, record = store.files(key), store.record(key)
        config = record.config if record is not None else files.read_config()
        model, titles = str(config.get("model")), " and ".join(row.title for row in FAMILIES.values())
        if model not in models.SIZES:
            raise UsageError(
                f"Run {key} trains '{model}', which is not a model of htbench; "
                f"only {titles} can be opened by other programs."
            )
        row = family(model)
        if row is None:
            raise UsageError(f"Run {key} trains '{model}'; only language models ({titles}) can be exported.")
        state, step = load_weights(files)
        if row.embedding not in state:
            raise UsageError(f"The weights of run {key} don't fit '{model}': no {row.embedding}.")
        # Those of the model's row, with what the task and the run brought.
        settings = dict(models.spec(model).settings)
        if config.get("dropout") and "dropout" in settings:
            settings["dropout"] = config["dropout"]
        length = config.get("seq_len") or settings["max_length"]
        settings |= {"vocabulary": len(state[row.embedding]), "max_length": length}
        trained = cls(key, files, config, record, row, settings, state, step)
        trained.module()  # refuses weights of other shapes
        return trained

    @property
    def model(self) -> str:
        """The name of the model."""
        return str(self.config["model"])

    @property
    def task(self) -> str:
        """The name of the task."""
        return str(self.config["task"])

    @property
    def dtype(self) -> str:
        """The format of the weights, "float32" or "bfloat16"."""
        return str(self.state[self.family.embedding].dtype).removeprefix("torch.")

    def module(self) -> nn.Module:
        """Our model with these weights, in evaluation mode. Nothing is copied.

        Raises:
            UsageError: the weights are those of another model: the code has changed.
        """
        with torch.device("meta"):
            model = models.build(self.model, **self.settings)
        try:
            model.load_state_dict(dict(self.state), assign=True)
        except RuntimeError as error:
            mismatch = " ".join(str(error).split())
            raise UsageError(
                f"The weights of run {self.key} don't fit '{self.model}': {mismatch[:300]}"
            ) from None
        return model.eval()
