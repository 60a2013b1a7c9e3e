"""lm-evaluation-harness, called as docs/export.md calls it, finds the likelihoods that our model has."""

import json
import os
import subprocess
import sys

import pytest
import torch

from htbench.harness.export import huggingface, tokens
from htbench.harness.export.trained import Trained
from htbench.harness.store import Store
from htbench.harness.store.layout import cache_folder
from tests.helpers import nano_models

pytest.importorskip("lm_eval")

QUESTIONS = [
    {"context": "Return the", "endings": ["value", "name of", "empty list"], "label": 0},
    {"context": "If the argument", "endings": ["is true", "raises", "a b"], "label": 2},
]
TASK = """
task: ours
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
output_type: multiple_choice
test_split: test
doc_to_text: context
doc_to_choice: endings
doc_to_target: label
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


@pytest.mark.slow
def test_lm_eval_finds_the_likelihoods_of_our_model(tmp_path):
    key = nano_models.train(tmp_path, "llama-nano")
    trained = huggingface.export(Store(tmp_path), key, tmp_path / "exported")
    expected = likelihoods(trained, tokens.of_run(trained.config, cache_folder(tmp_path)).tokenizer())
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks/ours.yaml").write_text(
        TASK.replace("FILE", json.dumps(str(tmp_path / "questions.jsonl")))
    )
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    words = f"""--model hf --device cpu --model_args pretrained={tmp_path / "exported"},softmax_dtype=float32
        --tasks ours --include_path {tmp_path / "tasks"} --output_path {tmp_path / "answers"} --log_samples"""
    command = [sys.executable, "-m", "lm_eval", *words.split()]
    done = subprocess.run(command, env=os.environ | offline, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    (path,) = (tmp_path / "answers").rglob("samples_ours_*.jsonl")
    rows = sorted(map(json.loads, path.read_text().splitlines()), key=lambda row: row["doc_id"])
    answers = [[float(answer[0][0]) for answer in row["resps"]] for row in rows]
    assert answers == [pytest.approx(scores, abs=1e-4) for scores in expected]
    assert [row["acc"] for row in rows] == [
        float(scores.index(max(scores)) == one["label"])
        for one, scores in zip(QUESTIONS, expected, strict=True)
    ]


def likelihoods(trained: Trained, tokenizer):
    """Of each ending of each question, the log-likelihood that our model gives its tokens."""
    module, found = trained.module(), []
    for question in QUESTIONS:
        context = tokenizer.encode(question["context"]).ids
        scores = []
        for ending in question["endings"]:
            whole = tokenizer.encode(f"{question['context']} {ending}").ids
            with torch.no_grad():
                steps = module(torch.tensor([whole[:-1]])).float().log_softmax(-1)[0]
            scores.append(sum(steps[at - 1, whole[at]].item() for at in range(len(context), len(whole))))
        found.append(scores)
    return found
