"""A run is found by its key, or by the beginning of it that no other run shares."""

import pytest

from htbench.harness.errors import UsageError
from htbench.harness.store import Store, layout


@pytest.fixture
def store(tmp_path):
    layout.begin(tmp_path)
    for key in ("aa11bb22cc33", "aa11ff000000", "b00000000000"):
        (tmp_path / "runs" / key[:2] / key).mkdir(parents=True)
    return Store(tmp_path)


@pytest.mark.parametrize(("word", "key"), [("b", "b00000000000"), ("aa11b", "aa11bb22cc33")])
def test_a_beginning_is_enough(store, word, key):
    assert store.find(word) == store.find(key) == key


@pytest.mark.parametrize(
    ("word", "said"), [("aa11", "2 runs have a key like"), ("c", "No run"), ("", "No run")]
)
def test_others_are_refused_in_one_sentence(store, word, said):
    with pytest.raises(UsageError, match=said):
        store.find(word)
