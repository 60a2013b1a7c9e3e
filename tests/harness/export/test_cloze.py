"""The local questions: from held-out text only, the same for everybody, and not to be guessed."""

from collections import Counter

import pytest

from harness.data import pydocs
from harness.export import cloze
from harness.system import atomic
from tests.helpers.documents import documents


def test_questions_have_four_endings_of_other_documents_and_about_one_length():
    made = cloze.make(documents(9), [])
    assert len(made) > 30
    for question in made:
        assert len(set(question.endings)) == 4 and question.label in range(4)
        length = len(question.endings[question.label])
        assert all(abs(len(ending) - length) <= cloze.UNLIKE for ending in question.endings)
        assert cloze.CONTEXT[0] <= len(question.context) <= cloze.CONTEXT[1]
        line = f"{question.context} {question.endings[question.label]}"
        (home,) = [at for at, text in enumerate(documents(9)) if line in text] or [None]
        assert home is not None


def test_no_line_of_another_split_is_asked_for():
    texts = documents(9)
    kept = cloze.make(texts, ["say: " + texts[0] + "!"])
    asked = [f"{question.context} {question.endings[question.label]}" for question in kept]
    assert asked and not any(line in texts[0] for line in asked)


def test_code_tables_and_short_lines_are_not_prose():
    assert (
        cloze.make([">>> print(1) is what one says here\n" * 9, "a  b  c d e f g h i j k l m n o p"], [])
        == []
    )


def test_the_questions_of_this_python_are_made_once(tmp_path, monkeypatch):
    splits = pydocs.divide(pydocs.modules(), pydocs.topics())  # takes seconds: only once
    monkeypatch.setattr(pydocs, "modules", dict)
    monkeypatch.setattr(pydocs, "divide", lambda *_: splits)
    questions, fingerprint = cloze.load(tmp_path)
    assert cloze.load(tmp_path) == (questions, fingerprint)
    assert 500 <= len(questions) <= 2000
    assert len({question.context + question.endings[question.label] for question in questions}) > 490
    shares = [number / len(questions) for number in Counter(q.label for q in questions).values()]
    assert len(shares) == 4 and all(0.2 < share < 0.3 for share in shares)
    held_out, seen = "\n".join(splits["test"]), "\n".join(splits["train"] + splits["val"])
    lines = [f"{question.context} {question.endings[question.label]}" for question in questions]
    assert all(line in held_out and line not in seen for line in lines)
    cloze.write_task(questions, tmp_path)
    assert [cloze.Question(**row) for row in atomic.read_json_lines(tmp_path / cloze.QUESTIONS)] == questions


@pytest.mark.parametrize(
    "text", ["one two three four five six seven", "supercalifragilistic expialidocious word"]
)
def test_an_ending_is_whole_words(text):
    context, ending = cloze._cut(text)
    assert len(ending) >= cloze.ENDING and f" {text}".endswith(f" {ending}")
    assert text.startswith(context) or len(context) <= cloze.CONTEXT[1]
