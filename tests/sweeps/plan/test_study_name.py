from pathlib import Path

from htbench.harness.system import atomic
from htbench.sweeps.plan.slots import study_name


def test_a_name_is_made_of_its_words_and_can_be_that_of_a_file():
    assert study_name(["few", "sgdm", "model.depth=2"]) == "few.sgdm.model.depth=2"
    assert study_name(["few", "../a b", "betas=(0.9, 0.95)"]) == "few..._a_b.betas=_0.9_0.95_"


def test_long_names_fit_and_stay_apart():
    names = [study_name(["few", "ä" * size, end]) for size in (109, 110, 150) for end in "xy"]
    assert len(set(names)) == 6 and names[0].endswith("ä.x")
    temporary = [atomic.temporary_name(Path(f"{name}.journal")).name for name in names]
    assert max(len(name.encode()) for name in temporary) <= 255
    assert all(name.startswith("few." + "ä" * 80) for name in names)
