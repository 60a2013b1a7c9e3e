"""One reader of shapes for all parts of a sweep file: each unknown key is refused in the same sentence."""

import pytest

from htbench.harness.errors import UsageError
from htbench.sweeps.spec import sweep_file as specs

FILE = """
base: {task: digits, model: resnet-nano, steps: 2, batch_size: 16, evaluation.every: 1}
blocks: [{name: one, set: {optimizer.name: sgdm}, space: {optimizer.lr: {low: 0.1, high: 1}}}]
search: {mode: tpe, trials: 2, pruner: {asha: {}}}
resources: {timeout_min: 5}
replicate: {seeds: 1}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "sentence"),
    [
        ("replicate:", "replicat:", "Unknown key 'replicat' in the sweep; did you mean 'replicate'?"),
        ("name: one", "nam: one", "Unknown key 'nam' in block 1; did you mean 'name'?"),
        ("high: 1", "hig: 1", "Unknown key 'hig' in the range of optimizer.lr; did you mean 'high'?"),
        ("trials: 2", "trial: 2", "Unknown key 'trial' in search; did you mean 'trials'?"),
        ("asha: {}", "ash: {}", "Unknown pruner 'ash' in search; did you mean 'asha'?"),
        (
            "{}}",
            "{min: 1}}",
            "Unknown key 'min' in search.pruner.asha; known are: min_resource, reduction_factor",
        ),
        ("seeds: 1", "seed: 1", "Unknown key 'seed' in replicate; did you mean 'seeds'?"),
        (
            "timeout_min: 5",
            "python: /my env/bin/python",
            "python in resources must be an absolute path or a plain name, without spaces, "
            "not '/my env/bin/python'.",
        ),
        (
            "timeout_min: 5",
            "container: torch.sif",
            "container in resources must be an absolute path or a URI such as docker://..., without spaces, "
            "not 'torch.sif'.",
        ),
        (
            "timeout_min: 5",
            "srun_args: --mpi=pmix",
            "srun_args in resources must be a list of words without spaces, not '--mpi=pmix'.",
        ),
        (
            "timeout_min: 5",
            "srun_args: [pmix]",
            "srun_args in resources must begin with an option, not 'pmix'.",
        ),
        *(
            (
                "timeout_min: 5",
                f"srun_args: [--mpi=pmix, {word}]",
                f"srun_args in resources can't have '{word}': the job's script sets this option itself.",
            )
            for word in ("--export=NONE", "--kill-on-bad=0", "--cpus-per-task", "-c4", "-K0")
        ),
        ("trials: 2", "trials: two", "search.trials must be a whole number from 1 to 100000, not 'two'."),
        ("replicate: {seeds: 1}", "replicate: 3", "'replicate' must be a mapping, not 3."),
    ],
)
def test_an_unknown_key_is_one_sentence_wherever_it_stands(write_spec, right, wrong, sentence):
    specs.load(write_spec(FILE))
    path = write_spec(FILE.replace(right, wrong, 1))
    with pytest.raises(UsageError) as caught:
        specs.load(path)
    assert str(caught.value) == f"{path}: {sentence}"
