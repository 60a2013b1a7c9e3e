"""What tasks give to models, without data."""

import pytest

from htbench.harness import tasks
from htbench.harness.cost import shapes
from htbench.harness.cost.shapes import NotEstimatedError
from tests.helpers.counted import config_of

KNOWN = {
    "pydocs": ("llama-nano", {"vocabulary": 320, "max_length": 32}),
    "pysource": ("llama-s4", {"vocabulary": 320, "max_length": 64}),
    "c4": ("llama-60m", {"vocabulary": 32000, "max_length": 256}),
    "openwebtext": ("gpt2-small", {"vocabulary": 50257, "max_length": 1024}),
    "fineweb": ("modded-gpt-small", {"vocabulary": 50304, "max_length": 1024}),
    "digits": ("resnet-nano", {"classes": 10, "in_channels": 1, "image_size": 8}),
    "glyphs": ("vit-nano", {"classes": 100, "in_channels": 1, "image_size": 16}),
    "cifar10": ("resnet18", {"classes": 10, "in_channels": 3, "image_size": 32}),
    "cifar100": ("resnet18", {"classes": 100, "in_channels": 3, "image_size": 32}),
    "imagenet-1k": ("vit-tiny", {"classes": 1000, "in_channels": 3, "image_size": 224}),
}
PADDED = "tests.helpers.padded:TASK"  # as a user has one


@pytest.mark.parametrize("task", tasks.TASKS)
def test_our_tasks_are_known_before_they_are_prepared(task):
    name, options = KNOWN[task]
    assert shapes.of(config_of(task, name)) == shapes.Shapes(tasks.spec(task).kind, options)


# pydocs is prepared in many seconds; digits stands for it in the quick suite.
@pytest.mark.parametrize(
    "task", ["digits", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pydocs", "glyphs"))]
)
def test_they_are_those_of_the_data(task, tmp_path):
    found = tasks.build(task, cache=tmp_path, batch_size=4, data_seed=0)
    assert shapes.of(config_of(task, KNOWN[task][0])).options == found.model_options


def test_the_length_of_a_sequence_is_that_of_the_run():
    found = shapes.of(config_of("c4", "llama-60m", seq_len=512))
    assert found.options == {"vocabulary": 32000, "max_length": 512}


def test_a_users_task_has_the_sizes_of_the_model_and_a_note():
    found = shapes.of(config_of(PADDED, "llama-nano"))
    assert found.options == {"vocabulary": 320, "max_length": 16}
    assert found.assumed


def test_where_neither_task_nor_model_tells_them_it_is_said():
    with pytest.raises(NotEstimatedError, match="nor the model 'torch.nn:Identity' tells vocabulary$"):
        shapes.of(config_of(PADDED, "torch.nn:Identity"))
