"""The sweeps of the ladder, `sweeps/ladder/*.yaml`: docs/ladder.md says what was decided before each ran."""

ASIDES = ("ladder-s1-others", "ladder-s1-ablations")  # at one size, outside of what was asked first
# Asked afterwards: how much of Muon's gain over AdamW is its map, and how much that two rates train a model?
SPLIT = tuple(f"ladder-split-{part}" for part in ("s1", "s1-more", "s2", "s3", "batch"))
SEARCHED = "ladder-split-seeds"  # search runs only, on more seeds than the searches of the others
# Later sweeps have settings that earlier ones found.
ORDER = (
    "ladder-aux",
    "ladder-s1",
    "ladder-s2",
    "ladder-s3",
    "ladder-s1-lengths",
    "ladder-s2-lengths",
    "ladder-s3-lengths",
    "ladder-s1-batch",
    *ASIDES,
    *SPLIT,
    SEARCHED,
)
QUICK = ("ladder-quick",)
GPU = tuple(f"ladder-gpu-{size}" for size in ("s1", "s2", "s3", "s4", "s5"))  # on another corpus
