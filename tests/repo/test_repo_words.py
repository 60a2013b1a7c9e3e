"""Facts first, words last: no code reads a sentence that was made for people.

The check goes by names: what is called a note, a message, a label or a setting in words, and what the
functions that make words return. It found those that stood in the code before, which `READ` keeps.
"""

import pytest

from tests.helpers.words_as_data import places, reads

# Words of others: of programs that have no other way to say it, and text on its way to a format.
OTHERS = {
    "harness/show/html.py": "what stands between backticks becomes <code>",
    "harness/show/latex.py": "what stands between backticks becomes \\texttt",
    "sweeps/cluster/sbatch.py": "sbatch says in words whether it has taken a job",
    "sweeps/cluster/submit.py": "the name of a limit in what sbatch says",
    "sweeps/screens/runs.py": "a message on one line",
}

# Each of these stood in the code before the law.
READ = [
    'own = "protocol=paper" in setting.split(", ")',
    'plain = "protocol=paper" in str(part["setting"].iloc[0]).split(", ")',
    'needed = "seeds needed" in sentence',
    'own = {p for p, how in treatments(optimizer).items() if how != "AdamW" and "(" not in how}',
    'name = reason.rpartition(" at step ")[0]',
    'edited = row["variant"].startswith("edited")',
    'label = metric.label.removesuffix(" (%)")',
    'settings = describe(point).removeprefix(f"{point.sweep} {point.block}")',
    "values = re.findall(_TOLD, resources.describe())",
    'same = re.sub(r"\\d+", "#", failure["message"]) == re.search(_LAST, failure["message"])',
]


@pytest.mark.parametrize("line", READ)
def test_a_sentence_that_is_read_is_found(line):
    assert reads(line) == [1]


@pytest.mark.parametrize(
    "line",
    [
        'first = "a" in words',
        'if note.kind == "edge": pass',
        "if state in UNFINISHED: pass",
        'name, _, value = word.partition("=")',
        'shown = f"{duration(seconds)} left"',
    ],
)
def test_a_fact_is_none(line):
    assert reads(line) == []


def test_no_code_reads_what_was_made_for_people():
    found = list(places())
    assert [place for place in found if place.partition(":")[0] not in OTHERS] == []
    assert {place.partition(":")[0] for place in found} == OTHERS.keys(), (
        "an exception that nobody needs goes"
    )
