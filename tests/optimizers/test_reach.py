"""Nobody may take a rule for weak that trained next to nothing, or that lacked what it needs."""

import json
import logging
import re
import warnings

import pytest
import torch
from torch import nn

from htbench import models
from htbench.harness.cli import main
from htbench.harness.store import Store
from htbench.optimizers import build
from htbench.optimizers.reach import Reach, little_reach
from tests.helpers.json_fields import promised


def said(model: str, optimizer: str, **settings: object) -> str:
    with torch.device("meta"):
        return str(little_reach(optimizer, build(optimizer, models.build(model), **settings)) or "")


@pytest.mark.parametrize(
    ("model", "optimizer", "settings", "sentence"),
    [
        ("resnet18", "mars", {}, r"mars trains 1 of the 21 .* entries\); of the others 20 get AdamW.$"),
        ("resnet18", "mars", {"routing": "matrix"}, "^$"),
        ("resnet18", "galore", {}, r"galore trains 0 of the 21 .* 21 get GaLore \(not projected\).$"),
        ("resnet18", "cosmos", {}, r"cosmos trains 1 of the 21 .* 20 get COSMOS \(Adam\).$"),
        ("llama-nano", "cosmos", {}, r"cosmos trains 2 of .* COSMOS \(rank 64 covers all 48 columns\).$"),
        ("llama-nano", "cosmos", {"rank": 16}, "^$"),
        ("llama-nano", "galore", {}, r"GaLore \(rank 128 covers all 48 dimensions\)"),
        ("llama-nano", "galore", {"rank": 16}, "^$"),
        ("llama-nano", "soap", {"max_precond_dim": 8}, r"16 get SOAP \(not rotated\)"),
        (
            "llama-nano",
            "muon",
            {"routing": lambda name, p: name == "embed_tokens.weight"},
            "muon trains 1 of",
        ),
        ("llama-nano", "muon", {"routing": lambda name, p: False}, "muon trains 0 of the 16"),
    ],
)
def test_a_rule_that_reaches_little(model: str, optimizer: str, settings: dict, sentence: str) -> None:
    found = said(model, optimizer, **settings)
    assert re.search(sentence, found), found


@pytest.mark.parametrize("optimizer", ["adamw", "sgdm", "cautious", "sophia", "soap", "muon", "htmuon_mix"])
@pytest.mark.parametrize("model", ["resnet-nano", "llama-nano"])
def test_nothing_is_said_of_a_rule_that_trains_all(model: str, optimizer: str) -> None:
    assert said(model, optimizer) == ""


@pytest.mark.parametrize(
    ("model", "optimizer"), [("llama-60m", "muon"), ("llama-60m", "galore"), ("llama-60m", "cosmos")]
)
def test_embeddings_and_head_alone_are_not_missed(model: str, optimizer: str) -> None:
    """Leaving them to AdamW is how these are meant, though they are more than half of the entries."""
    assert said(model, optimizer, routing="hidden") == ""


def test_the_run_and_the_listing_say_it_once_in_the_same_words(tmp_path, capsys, caplog) -> None:
    sentence = said("resnet-nano", "mars")
    words = ["task=digits", "model=resnet-nano", "steps=2", "batch_size=16", "optimizer.name=mars"]
    with caplog.at_level(logging.WARNING, "htbench"):
        assert main(["run", *words, "--root", str(tmp_path)]) == 0
    assert [record.getMessage() for record in caplog.records] == [sentence]
    (log,) = tmp_path.glob("runs/*/*/log.txt")
    assert log.read_text().count(f"WARNING {sentence}\n") == 1
    record = Store(tmp_path).record(log.parent.name)
    assert str(Reach(**record.environment["reach"])) == sentence
    capsys.readouterr()

    assert main(["zoo", "--routing", "resnet-nano", "mars"]) == 0
    assert capsys.readouterr().err == f"{sentence}\n"
    assert main(["zoo", "--json", "--routing", "resnet-nano", "mars"]) == 0
    shown = capsys.readouterr()
    promised("zoo --routing", json.loads(shown.out))
    assert len(json.loads(shown.out)) == 29 and shown.err == f"{sentence}\n"
    assert main(["zoo", "--routing", "resnet-nano", "muon"]) == 0
    assert capsys.readouterr().out.startswith("29 parameters, each once: 19 by AdamW, 10 by Muon.\n")


# --- Sophia without curvature passes ---


def sophia(**settings: object) -> tuple[nn.Parameter, torch.optim.Optimizer]:
    W = nn.Parameter(torch.ones(3))
    W.grad = torch.ones(3)
    return W, build("sophia", [W], **settings)


def warned(optimizer: torch.optim.Optimizer, steps: int) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(steps):
            optimizer.step()
    assert all(warning.filename == __file__ for warning in caught)  # the line of the user's loop
    return [str(warning.message) for warning in caught]


def test_a_plain_loop_is_told_once_that_its_sophia_is_sign_momentum() -> None:
    _, optimizer = sophia(curvature_interval=5)
    assert warned(optimizer, 5) == []
    (message,) = warned(optimizer, 20)
    assert message.startswith("Sophia made 6 steps without a new curvature estimate")
    assert "observe_curvature" in message and "wants_curvature" in message


@pytest.mark.parametrize("at_start", [False, True])
def test_a_loop_with_curvature_passes_is_not_warned_nor_is_one_that_means_it(at_start: bool) -> None:
    W, optimizer = sophia(curvature_interval=5, curvature_at_start=at_start)
    for step in range(23):
        if optimizer.wants_curvature(step):
            optimizer.observe_curvature(4)
        assert warned(optimizer, 1) == []
    assert warned(sophia(sign_momentum=True)[1], 30) == []


def test_a_loop_whose_passes_end_is_warned() -> None:
    _, optimizer = sophia(curvature_interval=5)
    optimizer.observe_curvature(4)
    assert warned(optimizer, 5) == []
    assert len(warned(optimizer, 5)) == 1
