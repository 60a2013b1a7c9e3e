"""Files and folders of weights: what is read of them, and one sentence for what is broken."""

import json

import pytest
import torch
from safetensors.torch import save_file

from htbench.harness.errors import UsageError
from htbench.harness.spectra.checkpoints import read
from htbench.harness.spectra.layers import measure
from htbench.harness.spectra.selection import Stored
from tests.helpers.spectra import layer_table


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
    found = read(file)
    same(found, state())
    assert all(isinstance(tensor, Stored) for tensor in found.values())
    assert [layer.name for layer in measure(found)] == [
        f"model.layers.{i}.mlp.up_proj.weight" for i in (0, 1)
    ]
    same(read(tmp_path), state())


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin", ".ckpt"])
@pytest.mark.parametrize("inside", [None, "model", "state_dict"])
def test_files_of_pytorch(tmp_path, suffix, inside):
    file = tmp_path / f"weights{suffix}"
    torch.save({inside: state(), "step": 3} if inside else state(), file)
    same(read(file), state())


def test_files_of_old_pytorch(tmp_path):
    file = tmp_path / "pytorch_model.bin"
    torch.save(state(), file, _use_new_zipfile_serialization=False)
    same(read(tmp_path), state())


def test_tied_weights_of_a_pytorch_file_are_one_layer(tmp_path):
    W = torch.randn(60, 6)
    torch.save({"wte.weight": W, "lm_head.weight": W}, tmp_path / "a.pt")
    (row,) = measure(read(tmp_path / "a.pt"), include="all")
    assert (row.name, row.aliases, row.kind) == ("wte.weight", ("lm_head.weight",), "embed")


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_shards(tmp_path, suffix):
    whole = state(3)
    names = sorted(whole)
    places = {name: f"part-{i % 2}.{suffix}" for i, name in enumerate(names)}
    for file in set(places.values()):
        part = {name: whole[name] for name in names if places[name] == file}
        save_file(part, tmp_path / file) if suffix == "safetensors" else torch.save(part, tmp_path / file)
    stem = "model" if suffix == "safetensors" else "pytorch_model"
    (tmp_path / f"{stem}.{suffix}.index.json").write_text(json.dumps({"weight_map": places}))
    same(read(tmp_path), whole)
    (tmp_path / f"part-1.{suffix}").unlink()
    with pytest.raises(UsageError, match=f"names 1 missing file, such as 'part-1.{suffix}'"):
        read(tmp_path)


def test_folders_with_one_file_of_another_name(tmp_path):
    save_file(state(), tmp_path / "diffusion.safetensors")
    same(read(tmp_path), state())
    save_file(state(), tmp_path / "other.safetensors")
    with pytest.raises(UsageError, match="2 files of weights and no index; name one"):
        read(tmp_path)


@pytest.mark.slow  # its import takes seconds
def test_models_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_embd=64, n_layer=1, n_head=2, vocab_size=90, n_positions=16)
    model = transformers.GPT2LMHeadModel(config)
    model.save_pretrained(tmp_path)
    table, live = (layer_table(weights, include="all") for weights in (read(tmp_path), model))
    columns = ["name", "kind", "alpha", "fro"]
    ordered = [one.sort_values("name", ignore_index=True)[columns] for one in (table, live)]
    assert ordered[0].equals(ordered[1])
    assert list(table["kind"]) == ["embed", "embed", "qkv", "o", "up", "down"]
    qkv = table.set_index("kind").loc["qkv"]
    assert (qkv["rows"], qkv["cols"]) == (64, 192)  # Conv1D is stored transposed, which alpha does not see


# --- what is broken ---


def broken(tmp_path, name, content):
    file = tmp_path / name
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("name", ["a.safetensors", "a.pt", "a.bin"])
@pytest.mark.parametrize("content", [b"", b"rubbish" * 9, None])
def test_damaged_files(tmp_path, name, content):
    if content is None:  # cut off
        whole = tmp_path / f"whole-{name}"
        save_file(state(), whole) if name.endswith("safetensors") else torch.save(state(), whole)
        content = whole.read_bytes()[:-50]
    with pytest.raises(UsageError) as error:
        read(broken(tmp_path, name, content))
    message = str(error.value)
    assert name in message and message.endswith(".") and "\n" not in message and len(message) < 400


def test_a_file_that_is_cut_off_while_it_is_read(tmp_path):
    file = tmp_path / "a.safetensors"
    save_file(state(), file)
    found = read(file)
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(UsageError, match="can't be read"):
        measure(found)


class Code:
    def __reduce__(self):
        return print, ("code is run",)


def test_code_in_a_pickle_is_not_run(tmp_path, capsys):
    torch.save({"model": state(), "more": Code()}, tmp_path / "a.pt")
    with pytest.raises(UsageError, match="holds Python objects, whose code isn't run"):
        read(tmp_path / "a.pt")
    assert "code is run" not in capsys.readouterr().out


def test_indices_that_are_none(tmp_path):
    for content in (b"{", b"[]", b"{}", b'{"weight_map": 3}'):
        with pytest.raises(UsageError, match="must be JSON with a 'weight_map'"):
            read(broken(tmp_path, "model.safetensors.index.json", content))


def test_nothing_there(tmp_path):
    with pytest.raises(UsageError, match="There is no file or folder"):
        read(tmp_path / "missing")
    with pytest.raises(UsageError, match="has no weights, such as model.safetensors"):
        read(tmp_path)
    with pytest.raises(UsageError, match="is no file of weights"):
        read(broken(tmp_path, "a.txt", b""))
    torch.save([1, 2], tmp_path / "list.pt")
    assert read(tmp_path / "list.pt") == {}
