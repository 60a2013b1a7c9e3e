"""The log-likelihood of a continuation given a context, as lm-evaluation-harness 0.4 computes it.

Context and continuation are encoded together, and what follows the tokens of the context alone is scored.
What is too long for the model loses tokens on the left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from harness.data.task import IGNORED, in_float32
from harness.errors import UsageError
from harness.export.cloze import Question

Pair = tuple[list[int], list[int]]  # tokens of a context and of its continuation, neither of them empty


@dataclass(frozen=True)
class Scorer:
    """A model with its tokenizer.

    Attributes:
        model: maps tokens (B, T) to logits (B, T, V).
        encode: from a text to its tokens.
        end: the token after every document.
        max_length: tokens that the model takes.
        batch_size: pairs at once.
        device: of the model.
    """

    model: nn.Module
    encode: Callable[[str], list[int]]
    end: int
    max_length: int
    batch_size: int
    device: str

    def pair(self, context: str, continuation: str) -> Pair:
        """The tokens of both; spaces at the end of the context count as the continuation's beginning."""
        whole = self.encode(context + continuation)
        first = self.encode(context.rstrip())
        return first, whole[len(first) :]

    @torch.no_grad()
    def log_likelihoods(
        self, pairs: Sequence[Pair], advance: Callable[[int], Any] = lambda done: None
    ) -> list[tuple[float, bool]]:
        """For each pair the log-likelihood in nats, and whether every token was the likeliest one.

        Args:
            pairs: long and short ones; those of about the same length are computed together.
            advance: is told the number of pairs after every batch.

        Raises:
            UsageError: a continuation is longer than the model's sequences.
        """
        order = sorted(range(len(pairs)), key=lambda number: -sum(map(len, pairs[number])))
        scores: dict[int, tuple[float, bool]] = {}
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            rows = [self._inputs(*pairs[number]) for number in chosen]
            inputs = nn.utils.rnn.pad_sequence(rows, batch_first=True)  # no position sees those after it
            ends = [_ending(len(row), pairs[number][1]) for row, number in zip(rows, chosen, strict=True)]
            wanted = nn.utils.rnn.pad_sequence(ends, batch_first=True, padding_value=IGNORED).to(self.device)
            logits = in_float32(self.model(inputs.to(self.device))).log_softmax(-1)
            ignored = wanted == IGNORED
            likely = logits.gather(-1, wanted.clamp(min=0)[..., None])[..., 0].masked_fill(ignored, 0).sum(1)
            every = ((logits.argmax(-1) == wanted) | ignored).all(1)
            scores |= zip(chosen, zip(likely.tolist(), every.tolist(), strict=True), strict=True)
            advance(len(chosen))
        return [scores[number] for number in range(len(pairs))]

    def _inputs(self, context: list[int], continuation: list[int]) -> Tensor:
        if len(continuation) > self.max_length:
            raise UsageError(
                f"An answer has {len(continuation)} tokens, and the model was trained on at most "
                f"{self.max_length} (seq_len); it can't be scored."
            )
        return torch.tensor((context + continuation)[-self.max_length - 1 : -1])

    def endings(
        self, questions: Sequence[Question], advance: Callable[[int], Any] = lambda done: None
    ) -> list[list[float]]:
        """The log-likelihoods of all endings of each question."""
        asked = [(question, ending) for question in questions for ending in question.endings]
        pairs = [self.pair(question.context, f" {ending}") for question, ending in asked]
        scores = iter(self.log_likelihoods(pairs, advance))
        return [[next(scores)[0] for _ in question.endings] for question in questions]


def _ending(length: int, tokens: list[int]) -> Tensor:
    """What a row of so many inputs is to predict: at the last places the tokens, before them nothing."""
    return torch.tensor([IGNORED] * (length - len(tokens)) + tokens)


def right(questions: Sequence[Question], scores: Sequence[Sequence[float]]) -> tuple[list[bool], list[bool]]:
    """Whether each question is answered rightly, by log-likelihood, and by log-likelihood per character."""
    plain, normed = [], []
    for question, ours in zip(questions, scores, strict=True):
        per_character = [score / len(ending) for score, ending in zip(ours, question.endings, strict=True)]
        plain.append(ours.index(max(ours)) == question.label)
        normed.append(per_character.index(max(per_character)) == question.label)
    return plain, normed
