"""Files of weights: what is read of them, and one sentence for what is broken."""

import pytest
import torch
from safetensors.torch import save_file

from htbench.harness.errors import UsageError
from htbench.harness.spectra.checkpoints import read_tensors
from htbench.harness.spectra.layers import measure
from htbench.harness.spectra.selection import Stored


def state(layers=2):
    generator = torch.Generator().manual_seed(0)
    names = [f"model.layers.{i}.mlp.up_proj.weight" for i in reversed(range(layers))]
    return {name: torch.randn(8, 6, generator=generator) for name in names} | {
        "model.norm.weight": torch.ones(6)
    }


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert torch.equal(tensor.read() if isinstance(tensor, Stored) else tensor, expected[name])


def test_safetensors_are_read_one_by_one(tmp_path):
    file = tmp_path / "model.safetensors"
    save_file(state(), file)
    found = read_tensors(file)
    same(found, state())
    assert all(isinstance(tensor, Stored) for tensor in found.values())
    assert [layer.name for layer in measure(found)] == [
        f"model.layers.{i}.mlp.up_proj.weight" for i in (0, 1)
    ]


# --- what is broken ---


def broken(tmp_path, name, content):
    file = tmp_path / name
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("content", [b"", b"rubbish" * 9, None])
def test_damaged_files(tmp_path, content):
    if content is None:  # cut off
        whole = tmp_path / "whole.safetensors"
        save_file(state(), whole)
        content = whole.read_bytes()[:-50]
    with pytest.raises(UsageError) as error:
        read_tensors(broken(tmp_path, "a.safetensors", content))
    message = str(error.value)
    assert "a.safetensors" in message and message.endswith(".") and "\n" not in message and len(message) < 400


def test_a_file_that_is_cut_off_while_it_is_read(tmp_path):
    file = tmp_path / "a.safetensors"
    save_file(state(), file)
    found = read_tensors(file)
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(UsageError, match="can't be read"):
        measure(found)


def test_what_is_no_file_of_safetensors_is_not_read(tmp_path):
    """A pickle could run code; a folder may hold anything."""
    torch.save(state(), tmp_path / "a.pt")
    for place in (tmp_path / "a.pt", tmp_path, tmp_path / "missing.safetensors"):
        with pytest.raises(UsageError, match="is neither the folder of a run nor a file of weights"):
            read_tensors(place)
