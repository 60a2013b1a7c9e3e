from sweeps.plan.study_name import LONGEST, study_name


def test_a_name_is_made_of_its_words_and_can_be_that_of_a_file():
    assert study_name(["few", "sgdm", "model.depth=2"]) == "few.sgdm.model.depth=2"
    assert study_name(["few", "../a b", "betas=(0.9, 0.95)"]) == "few..._a_b.betas=_0.9_0.95_"


def test_long_names_fit_and_stay_apart():
    names = [study_name(["few", "ä" * size, end]) for size in (97, 98, 150) for end in "xy"]
    assert len(set(names)) == 6 and names[0].endswith("ä.x")
    assert max(len(name.encode()) for name in names) <= LONGEST
    assert all(name.startswith("few." + "ä" * 80) for name in names)
    assert study_name(["few", "ä" * 150, "x"]) == names[4], "the same in every process"
