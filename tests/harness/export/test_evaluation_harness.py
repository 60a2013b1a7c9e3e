"""lm-evaluation-harness itself, offline, on an exported model: question by question what we find."""

import json
import os
import subprocess
import sys

import pytest

from harness.export import cloze, huggingface
from harness.export.downstream import Options, _scorer
from harness.export.scoring import right
from harness.export.trained import Trained
from harness.store import Store
from harness.store.layout import cache_folder
from tests.helpers import nano_models
from tests.helpers.documents import documents

pytest.importorskip("lm_eval")

# Asks the harness twice: through its own model class on the folder, and through ours as `downstream` does.
PROGRAM = """
import json, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from harness.export import evaluation_harness
from harness.export.downstream import Options, _scorer
from harness.errors import UsageError
from harness.export.trained import Trained
from harness.store import Store
from harness.store.layout import cache_folder

def rows(samples):
    by_number = sorted(samples, key=lambda one: one["doc_id"])
    return [[[one[0][0] for one in row["resps"]], row["acc"], row["acc_norm"]] for row in by_number]

root, key, folder, tasks = map(Path, sys.argv[1:])
loaded = evaluation_harness.load("pydocs_cloze", tasks)
model = HFLM(pretrained=str(folder), device="cpu", batch_size=16, softmax_dtype="float32")
theirs = simple_evaluate(model=model, tasks=["pydocs_cloze"], task_manager=loaded.index, bootstrap_iters=10)
scorer = _scorer(Trained.load(Store(root), key.name), cache_folder(root), Options(device="cpu"))
told = []
begin = lambda number: told.append(number) or told.append
entry, samples = evaluation_harness.evaluate(loaded, scorer, None, begin)
try:
    evaluation_harness.load("arc_easy")
except UsageError as error:
    offline = str(error)
print(json.dumps({
    "results": theirs["results"]["pydocs_cloze"], "theirs": rows(theirs["samples"]["pydocs_cloze"]),
    "entry": entry, "ours": rows(samples), "told": told, "offline": offline,
}))
"""


@pytest.fixture(scope="module", params=list(nano_models.OPTIMIZERS))
def found(request, tmp_path_factory):
    """What the harness says on a trained model, and the model."""
    root = tmp_path_factory.mktemp("store")
    key = nano_models.train(root, request.param)
    huggingface.export(Store(root), key, root / "exported")
    (root / "tasks").mkdir()
    questions = cloze.make(documents(9), [])
    cloze.write_task(questions, root / "tasks")
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(root / "home")}
    words = [sys.executable, "-c", PROGRAM, root, key, root / "exported", root / "tasks"]
    done = subprocess.run(words, env=os.environ | offline, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), questions, Trained.load(Store(root), key), root


@pytest.mark.slow
def test_the_harness_finds_what_our_scoring_finds(found):
    said, questions, trained, root = found
    scores = _scorer(trained, cache_folder(root), Options(device="cpu")).endings(questions)
    plain, normed = right(questions, scores)
    assert len(said["theirs"]) == len(questions)
    for theirs in (said["theirs"], said["ours"]):
        for (likely, acc, acc_norm), ours, one, other in zip(theirs, scores, plain, normed, strict=True):
            assert likely == pytest.approx(ours, abs=1e-4)
            assert (acc, acc_norm) == (one, other)
    assert said["results"]["acc,none"] == said["entry"]["acc"] == sum(plain) / len(plain)
    assert said["results"]["acc_norm_stderr,none"] == pytest.approx(said["entry"]["acc_norm_stderr"])
    assert said["entry"]["questions"] == len(questions) and said["entry"]["scorer"].startswith("lm-eval 0.4")
    assert said["told"][0] == sum(said["told"][1:]) == 4 * len(questions)


@pytest.mark.slow
def test_missing_data_is_named_with_what_to_do(found):
    said = found[0]["offline"]
    assert said.startswith("The data of 'arc_easy' (allenai/ai2_arc) can't be had (")
    assert "HF_DATASETS_OFFLINE=1" in said and "--include-path" in said and "\n" not in said
