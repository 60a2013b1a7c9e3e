"""The local task `pydocs_cloze`: which of four endings does a line of documentation have? Torch-free.

The lines are from the test split of pydocs, which no run trains on, and none of them is found in the text of
another split. The three wrong endings are those of lines of other documents, about as long as the right one.
Nothing is drawn at random: choices follow hashes, so the same Python has the same questions.
"""

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.data import pydocs
from harness.data.cache import cached
from harness.export.results import CLOZE

RECIPE = 1  # raised when the same documents give other questions
CHOICES = 4
ENDING = 12  # characters at least, in whole words
CONTEXT = (12, 28)  # characters at least and at most: most questions fit into 32 tokens of a nano model
UNLIKE = 2  # characters by which the lengths of the endings may differ

QUESTIONS, YAML = "questions.jsonl", f"{CLOZE}.yaml"
_PROSE = re.compile(r"[A-Za-z][A-Za-z' ,.:;()_-]*")

# How lm-evaluation-harness asks them.
_TASK = Path(__file__).with_name("cloze_task.yaml")


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        context: the beginning of the line.
        endings: four; a space goes between context and ending.
        label: which of them is right, from 0.
    """

    context: str
    endings: list[str]
    label: int


@dataclass(frozen=True)
class _Line:
    document: int
    context: str
    ending: str


def load(cache: Path) -> tuple[list[Question], str]:
    """The questions, and their fingerprint (sixteen hex digits).

    Args:
        cache: folder of prepared data; the questions are made there if missing, in some seconds.
    """
    recipe = (pydocs.fingerprint(), RECIPE, CHOICES, ENDING, CONTEXT, UNLIKE)
    name = hashlib.sha256(repr(recipe).encode()).hexdigest()[:16]
    content = (cached(cache / f"{CLOZE}-{name}", _fill) / QUESTIONS).read_text(encoding="utf-8")
    questions = [Question(**json.loads(line)) for line in content.splitlines()]
    return questions, hashlib.sha256(content.encode()).hexdigest()[:16]


def write_task(questions: Iterable[Question], folder: Path) -> None:
    """Write the questions as a task of lm-evaluation-harness, for `--include_path`.

    Args:
        questions: all of them.
        folder: an existing one. The task names it and is written again when it moves.
    """
    file = folder.resolve() / QUESTIONS
    file.write_text(_as_lines(questions), encoding="utf-8")
    text = _TASK.read_text(encoding="utf-8").format(
        name=CLOZE, file=json.dumps(str(file)), version=float(RECIPE)
    )
    (folder / YAML).write_text(text, encoding="utf-8")


def make(documents: list[str], others: list[str]) -> list[Question]:
    """The questions of held-out `documents`; no line of a question is in `others`."""
    elsewhere = "\n".join(others)
    lines = [line for line in _lines(documents) if f"{line.context} {line.ending}" not in elsewhere]
    questions = (_question(line, lines) for line in lines)
    return [question for question in questions if question is not None]


def _fill(folder: Path) -> None:
    splits = pydocs.divide(pydocs.modules(), pydocs.topics())
    others = [text for name, texts in splits.items() if name != "test" for text in texts]
    (folder / QUESTIONS).write_text(_as_lines(make(splits["test"], others)), encoding="utf-8")


def _as_lines(questions: Iterable[Question]) -> str:
    return "".join(json.dumps(asdict(question)) + "\n" for question in questions)


def _lines(documents: list[str]) -> Iterator[_Line]:
    """Every line of prose once, cut into context and ending."""
    seen = set()
    for number, document in enumerate(documents):
        for text in map(str.strip, document.splitlines()):
            if text not in seen and "  " not in text and _PROSE.fullmatch(text):
                seen.add(text)
                context, ending = _cut(text)
                if len(context) >= CONTEXT[0]:
                    yield _Line(number, context, ending)


def _cut(text: str) -> tuple[str, str]:
    """The last words as the ending, and as many words before them as fit into the context."""
    at = text.rfind(" ", 0, max(0, len(text) - ENDING))
    context, ending = text[: max(0, at)], text[at + 1 :]
    if len(context) > CONTEXT[1]:
        context = context[-CONTEXT[1] - 1 :].partition(" ")[2]
    return context, ending


def _question(line: _Line, lines: list[_Line]) -> Question | None:
    """None if too few other endings are about as long."""
    alike = {
        other.ending
        for other in lines
        if other.document != line.document and abs(len(other.ending) - len(line.ending)) <= UNLIKE
    } - {line.ending}
    wrong = sorted(alike, key=functools.partial(_place, line.context))[: CHOICES - 1]
    if len(wrong) < CHOICES - 1:
        return None
    endings = sorted([line.ending, *wrong], key=functools.partial(_place, f"{line.context}?"))
    return Question(line.context, endings, endings.index(line.ending))


def _place(context: str, ending: str) -> bytes:
    """A number that decides an order which has nothing to do with the texts."""
    return hashlib.sha256(f"{context}\n{ending}".encode()).digest()
