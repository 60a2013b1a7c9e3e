"""The model card: honest, and whole whatever people call their things."""

import re

import pytest
import yaml

from htbench.harness.export import huggingface
from tests.helpers import nano_models
from tests.helpers.records import record

HOSTILE = 'x\n---\n# <script>alert("1")</script> | ](http://evil) `````` *b* \u202e\x07'


def card_of(**config):
    return huggingface.card(nano_models.untrained("llama-nano", **config), has_tokenizer=True)


def front_matter(text):
    head = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    return yaml.safe_load(head[1])


def test_hostile_names_stay_words():
    text = card_of(optimizer={"name": HOSTILE}, replica=HOSTILE, task=HOSTILE)
    assert front_matter(text)["tags"] == ["htbench", f"optimizer:{HOSTILE}"]
    body = text.split("\n---\n", 1)[1]
    (title,) = [line for line in body.splitlines() if line.startswith("# ")]
    assert "<script>" not in title and "\\|" in title and "\\](http" in title
    fence, content = re.search(r"\n(`{3,})yaml\n(.*?)\n\1\n", body, re.DOTALL).groups()
    assert len(fence) > 6 and yaml.safe_load(content)["replica"] == HOSTILE
    assert "\u202e" not in title and "\x07" not in text


@pytest.mark.parametrize("words", ["a|b", "[a](b)", "<b>", "a\nb", "`a`", "*a*", "a_b_c"])
def test_plain_words_mean_nothing_in_markdown(words):
    found = huggingface.plain(words)
    assert "\n" not in found and not re.search(r"(?<!\\)[|`*_\[\]]|<", found)


def test_figures_are_said_to_be_of_one_run():
    ended = record("k" * 12, 1)
    ended.environment.update(code="abc", host="secret-machine")
    ended.config.update(seed=3, data_seed=4)
    model = nano_models.untrained("gpt2-nano")
    last = type(model)(**{**vars(model), "record": ended, "step": None})
    text = huggingface.card(last, has_tokenizer=False)
    assert "n = 1: seed 3, data seed 4" in text and "no error bar" in text
    assert "| val\\_loss | 0.5 |" in text
    assert "final ones, after step 8 (float32)" in text and "88,896" in text
    assert "secret-machine" not in text and "| code | abc |" in text
    assert "AutoTokenizer" not in text and "no tokenizer" in text
