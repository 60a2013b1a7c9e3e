"""Log-likelihoods of answers, against the plain formula."""

import math

import pytest
import torch

from harness.errors import UsageError
from harness.export import results
from harness.export.cloze import Question
from harness.export.scoring import Scorer, right
from tests.helpers import nano_models

PAIRS = [([5, 6, 7], [8]), ([1], [2, 3, 4]), (list(range(40)), [9, 9]), ([3], list(range(32))), ([2, 2], [2])]


def scorer(batch_size=3):
    model = nano_models.untrained("llama-nano").module()
    return Scorer(model, lambda text: [ord(letter) for letter in text], 0, 32, batch_size, "cpu")


def plain(model, context, continuation):
    """Token by token, each from the 32 tokens before it that the first call would have left."""
    whole = (context + continuation)[-33:]
    logits = model(torch.tensor([whole[:-1]]))[0].log_softmax(-1)
    first = len(whole) - len(continuation)
    return sum(logits[at - 1, whole[at]].item() for at in range(first, len(whole)))


def test_sums_over_the_continuation_in_any_batch():
    ours = scorer()
    counts = []
    found = ours.log_likelihoods(PAIRS, counts.append)
    with torch.no_grad():
        expected = [plain(ours.model, *pair) for pair in PAIRS]
    assert [score for score, _ in found] == pytest.approx(expected, rel=1e-5)
    assert counts == [3, 2]
    alone = [one for pair in PAIRS for one in scorer(1).log_likelihoods([pair])]
    assert [score for score, _ in alone] == pytest.approx(expected, rel=1e-5)


def test_the_likeliest_continuation_is_known_as_such():
    ours = scorer()
    with torch.no_grad():
        best = int(ours.model(torch.tensor([[4, 5]]))[0, -1].argmax())
    assert [likeliest for _, likeliest in ours.log_likelihoods([([4, 5], [best]), ([4, 5], [best ^ 1])])] == [
        True,
        False,
    ]


def test_a_space_belongs_to_the_answer():
    assert scorer().pair("ab ", "c") == scorer().pair("ab", " c") == ([97, 98], [32, 99])


def test_an_answer_that_no_sequence_holds_is_refused():
    with pytest.raises(UsageError, match="An answer has 33 tokens"):
        scorer().log_likelihoods([([1], list(range(33)))])


def test_normed_answers_count_characters_not_tokens():
    questions = [Question("c", ["long ending", "end"], 0), Question("c", ["aa", "bb"], 1)]
    assert right(questions, [[-5.0, -3.0], [-1.0, -1.0]]) == ([False, False], [True, False])


def test_the_standard_error_is_that_of_the_sample():
    answers = [True] * 3 + [False] * 5
    mean, error = results.share(answers)
    sample = torch.tensor(answers, dtype=torch.float64).std().item()
    assert mean == 3 / 8 and error == pytest.approx(sample / math.sqrt(8))
    assert results.share([True]) == (1.0, None)


def test_the_average_needs_all_seven_and_all_questions():
    entries = {task: {"acc": number / 10, "limit": None} for number, task in enumerate(results.SEVEN)}
    assert results.average(entries) == pytest.approx(0.3) and results.missing(entries) == []
    assert results.average({**entries, "piqa": {"acc": 1.0, "limit": 5}}) is None
    del entries["boolq"]
    assert results.average(entries) is None and results.missing(entries) == ["boolq"]
    assert results.default_tasks("c4") == list(results.SEVEN)
