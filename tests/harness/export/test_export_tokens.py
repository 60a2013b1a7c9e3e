"""The published tokenizers of c4 and openwebtext as files of Hugging Face."""

import json

import pytest

from htbench.harness import tasks
from htbench.harness.data import copies
from htbench.harness.data.prepare_text import PublishedTokenizer
from htbench.harness.errors import UsageError
from htbench.harness.export import tokens
from tests.helpers import miniature

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("published_corpora")
TEXTS = [
    "alder birch cedar",
    " Elm, fir.\n\nhazel  larch ",
    "it ends</s> and goes on",
    "<|endoftext|>oak<unk>pine<pad>",
    "",
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory, corpora):
    return miniature.prepared(tmp_path_factory.mktemp("prepared"), corpora, ("c4", "openwebtext"))


def made(task, layout, cache, folder):
    own = tokens.of_run({"task": task, "layout": layout, "data_fingerprint": tasks.fingerprint(task)}, cache)
    for name, content in own.files(256).items():
        (folder / name).write_text(json.dumps(content))
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return own, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("task", ["c4", "openwebtext"])
def test_a_text_has_the_tokens_of_training(cache, tmp_path, task):
    own, theirs = made(task, "packed", cache, tmp_path)
    file = next(cache.glob(f"{task}-*/tokenizer.json"))
    published = PublishedTokenizer.read(file, copies.row(task)["tokenizer"])
    for text, ids in zip(TEXTS, published.encode(TEXTS), strict=True):
        assert theirs(text)["input_ids"] == own.tokenizer().encode(text).ids == ids
        assert theirs(text, add_special_tokens=False)["input_ids"] == ids
    together, alone = theirs("alder birch")["input_ids"], theirs("alder")["input_ids"]
    assert together[: len(alone)] == alone  # what scoring an answer after a question relies on


@pytest.mark.parametrize("task", ["c4", "openwebtext"])
@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_a_text_begins_as_in_training(cache, tmp_path, task, layout):
    own, theirs = made(task, layout, cache, tmp_path)
    row = copies.row(task)["tokenizer"]
    assert (theirs.eos_token, theirs.pad_token) == (row["end"], row["pad"])
    assert theirs.bos_token == (row["end"] if layout == "packed" else None)
    ids = (theirs.bos_token_id, theirs.eos_token_id, theirs.pad_token_id)
    assert ids == tuple(own.ids.values())


def test_tokens_beyond_the_models_vocabulary_are_left_out(cache, tmp_path):
    _, theirs = made("c4", "padded", cache, tmp_path)
    assert "<extra_id_0>" not in theirs.get_vocab()
    assert max(theirs.get_vocab().values()) == copies.row("c4")["tokenizer"]["vocabulary"] - 1


def test_a_vocabulary_of_sentencepiece_is_cut_likewise():
    words = [["<pad>", 0.0], ["</s>", 0.0], ["a", -1.0], ["<extra_id_0>", 0.0]]
    content = {"model": {"type": "Unigram", "vocab": words}, "added_tokens": [{"id": 1}, {"id": 3}]}
    cut = tokens._cut(content, 3)
    assert cut["model"]["vocab"] == words[:3] and cut["added_tokens"] == [{"id": 1}]
    assert len(content["model"]["vocab"]) == 4


def test_missing_data_is_told_with_the_command(tmp_path):
    config = {"task": "c4", "data_fingerprint": tasks.fingerprint("c4")}
    with pytest.raises(UsageError, match="`htbench data prepare c4`"):
        tokens.of_run(config, tmp_path)
