"""`htbench export`: what transformers opens computes what our model computes, with the tokens of the task."""

import resource
import sys

import numpy as np
import pytest
import torch

from htbench.harness import cli
from htbench.harness.config.settings import resolve_config
from htbench.harness.data.pydocs import END_OF_TEXT
from htbench.harness.errors import UsageError
from htbench.harness.export import huggingface
from htbench.harness.export.trained import Trained
from htbench.harness.store import Store, layout
from tests.helpers import nano_models
from tests.helpers.interrupting import interrupt

transformers = pytest.importorskip("transformers")
MODELS = list(nano_models.OPTIMIZERS)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def keys(store):
    return {model: nano_models.train(store.root, model) for model in MODELS}


@pytest.fixture
def export(store, monkeypatch):
    """The command; it does without transformers."""

    def run(*words):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, "transformers", None)
            return cli.main(["export", "--root", str(store.root), *map(str, words)])

    return run


def opened(folder, **options):
    model, told = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, **options
    )
    assert not any(told.values()), told
    return model


def logits(model, tokens):
    with torch.no_grad():
        found = model(tokens)
    return getattr(found, "logits", found).float()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model", MODELS)
def test_logits_of_any_weights_are_equal(tmp_path, model, dtype):
    ours = nano_models.untrained(model, dtype)
    huggingface.fill(tmp_path, ours, None)
    tokens = torch.randint(320, (3, 32))
    as_written = opened(tmp_path)
    assert as_written.dtype == dtype and type(as_written).__name__ == ours.family.architecture
    exact = logits(ours.module().float(), tokens)
    torch.testing.assert_close(
        logits(opened(tmp_path, dtype=torch.float32), tokens), exact, rtol=1e-5, atol=1e-5
    )
    if dtype == torch.bfloat16:  # both round, at other places; neither more than the other
        errors = [
            (logits(one, tokens) - exact).std()
            for one in (as_written, nano_models.untrained(model, dtype).module())
        ]
        assert 0.5 < errors[0] / errors[1] < 2 and errors[0] < 0.05 * exact.std()


@pytest.mark.parametrize("model", MODELS)
def test_a_trained_model_goes_round(store, keys, export, tmp_path, capsys, model):
    key, folder = keys[model], tmp_path / "new" / model
    assert export(key[:8], folder) == 0
    assert f"{model} of run {key}, final weights" in capsys.readouterr().out
    ours = Trained.load(store, key)
    assert ours.step is None
    tokens = torch.randint(320, (3, 32))
    theirs = opened(folder)
    torch.testing.assert_close(logits(theirs, tokens), logits(ours.module(), tokens), rtol=1e-5, atol=1e-5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    prompt = tokenizer("Return the", return_tensors="pt")
    assert (
        len(theirs.generate(**prompt, max_new_tokens=3, min_new_tokens=3)[0]) == prompt.input_ids.numel() + 3
    )
    ids = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}
    assert ids == {theirs.config.bos_token_id, theirs.config.eos_token_id, theirs.config.pad_token_id} == {0}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o666 & ~umask()}


def umask():
    import os

    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_tokens_are_those_of_the_stream(store, keys, export, tmp_path):
    assert export(keys["llama-nano"], tmp_path / "x") == 0
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "x")
    assert len(tokenizer) == 320 and tokenizer.model_max_length == 32
    stream = np.load(next(store.root.glob("cache/pydocs-*/test.npy")))
    ends = np.flatnonzero(stream == 0)[:5]
    documents = [stream[start + 1 : end].tolist() for start, end in zip([-1, *ends], ends, strict=False)]
    for tokens in documents:
        assert tokenizer(tokenizer.decode(tokens))["input_ids"] == tokens
    assert tokenizer(END_OF_TEXT)["input_ids"] == [0] and tokenizer.decode([0]) == END_OF_TEXT


# --- which weights, which folder ---


def test_a_checkpoint_is_exported_and_the_card_says_its_step(tmp_path):
    config = resolve_config(
        nano_models.NANO | {"model": "gpt2-nano", "optimizer.name": "adamw", "dropout": 0.25}
    )
    interrupt(config, tmp_path, 3)
    (key,) = [path.name for path in tmp_path.glob("runs/*/*")]
    made = huggingface.export(Store(tmp_path), key, tmp_path / "out")
    assert 0 < made.step < 20
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"of a checkpoint after step {made.step} of 20; the run had not ended" in card
    assert "no final figures" in card and "It is written at the end of the run." in card
    assert opened(tmp_path / "out").config.resid_pdrop == 0.25


def test_a_folder_with_files_stays(keys, export, tmp_path, capsys):
    llama, gpt2 = keys.values()
    folder = tmp_path / "out"
    folder.mkdir()  # an empty one is taken
    assert export(llama, folder) == 0
    for place in (folder, folder / "README.md"):
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert export(gpt2, place) == 2
        assert "is not empty; name a folder that is new or empty." in capsys.readouterr().err
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_full_disk_leaves_no_folder(keys, export, tmp_path, capsys):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
    try:
        assert export(keys["llama-nano"], tmp_path / "out") == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    said = capsys.readouterr().err
    assert said.startswith("htbench: the system refuses '") and said.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"task": "digits", "model": "resnet-nano"}, "only language models"),
        ({"model": "tests.helpers.own_parts:mlp"}, "is not a model of htbench"),
        ({"model": "gpt2-nano", "checkpoint.keep_weights": False}, "has kept no weights"),
    ],
)
def test_others_are_refused_in_one_sentence(tmp_path, settings, said):
    from htbench.harness.config.settings import to_yaml

    layout.begin(tmp_path)
    files = Store(tmp_path).files("ab" * 6)
    files.path.mkdir(parents=True)
    config = resolve_config({"task": "pydocs", "model": "llama-nano", "steps": 2, "batch_size": 4})
    text = to_yaml(config)
    for name, value in settings.items():
        old = {"task": "pydocs", "model": "llama-nano"}.get(name)
        text = text.replace(f"{name}: {old}", f"{name}: {value}")
    files.config.write_text(text)
    with pytest.raises(UsageError, match=said):
        huggingface.export(Store(tmp_path), "ab", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_weights_of_another_shape_are_refused(tmp_path, keys, store):
    ours = Trained.load(store, keys["gpt2-nano"])
    short = {**ours.state, "wpe.weight": ours.state["wpe.weight"][:5]}
    broken = nano_models.untrained("gpt2-nano")
    with pytest.raises(UsageError, match="don't fit 'gpt2-nano'"):
        Trained(**{**vars(broken), "state": short}).module()


def test_data_of_another_python_is_named(tmp_path):
    from htbench.harness.export import tokens

    with pytest.raises(UsageError, match=r"with the fingerprint 0123, .* copy 'pydocs-0123'"):
        tokens.of_run({"task": "pydocs", "data_fingerprint": "0123"}, tmp_path)
    assert tokens.of_run({"task": "mine:TASK", "data_fingerprint": "0123"}, tmp_path) is None
