"""The laws of the house, held against every import in it, wherever in a file it stands.

The picture below is the whole truth: an arrow that it lacks is forbidden, and one that nobody uses goes. Who
needs a new arrow adds it here and sees at once whether it closes a circle.
"""

import ast
import re
import subprocess
import sys

import pytest

from tests.helpers.architecture import (
    PACKAGES,
    ROOT,
    House,
    anywhere,
    circle,
    floors,
    folders,
    within,
)

# Room -> the rooms that it imports from, in each package from the lowest floor to the highest.
PICTURE = {
    # models
    "models": "",
    # optimizers
    "optimizers.zoo": "",
    "optimizers": "optimizers.zoo",
    # harness
    "harness": "",
    "harness.errors": "",
    "harness.paper": "harness.errors",
    "harness.show": "harness.errors",
    "harness.tasks": "harness.errors",
    "harness.system": "harness.errors harness.show",
    "harness.config": ("harness.errors harness.system harness.tasks models optimizers optimizers.zoo"),
    "harness.parallel": "harness.errors harness.show harness.system",
    "harness.spectra": "harness.errors harness.show",
    "harness.data": "harness.errors harness.parallel harness.show harness.system",
    "harness.store": "harness.config harness.errors harness.show harness.system",
    "harness.choice": "harness.config harness.store harness.tasks optimizers.zoo",
    "harness.cli": "harness.errors harness.show harness.store harness.system",
    "harness.exchange": "harness.errors harness.show harness.store harness.system",
    "harness.train": (
        "harness.config harness.data harness.errors harness.parallel harness.show harness.spectra "
        "harness.store harness.system harness.tasks models optimizers"
    ),
    "harness.cost": (
        "harness.config harness.data harness.errors harness.parallel harness.show harness.store "
        "harness.system harness.tasks harness.train models optimizers optimizers.zoo"
    ),
    "harness.export": (
        "harness.data harness.errors harness.show harness.store harness.system harness.tasks "
        "harness.train models"
    ),
    "harness.bench": (
        "harness.config harness.cost harness.errors harness.show harness.store harness.system harness.tasks "
        "harness.train models optimizers optimizers.zoo"
    ),
    "harness.commands": (
        "harness.bench harness.cli harness.config harness.cost harness.data harness.errors "
        "harness.exchange harness.export harness.parallel harness.show harness.spectra harness.store "
        "harness.system harness.tasks harness.train"
    ),
    # sweeps
    "sweeps": "",
    "sweeps.experiments": "",
    "sweeps.spec": "harness.config harness.errors harness.show harness.store",
    "sweeps.plan": (
        "harness.choice harness.config harness.errors harness.show harness.store harness.system "
        "optimizers sweeps.spec"
    ),
    "sweeps.studies": (
        "harness.config harness.errors harness.show harness.store harness.system harness.tasks "
        "sweeps.plan sweeps.spec"
    ),
    "sweeps.run": (
        "harness.config harness.cost harness.data harness.errors harness.parallel harness.show "
        "harness.store harness.system harness.tasks harness.train models optimizers sweeps.plan sweeps.spec "
        "sweeps.studies"
    ),
    "sweeps.cluster": (
        "harness.config harness.errors harness.show harness.store harness.system "
        "harness.train sweeps.plan sweeps.run sweeps.spec"
    ),
    "sweeps.screens": (
        "harness.choice harness.config harness.cost harness.errors harness.show harness.store "
        "harness.system harness.tasks harness.train sweeps.cluster sweeps.plan sweeps.run sweeps.spec"
    ),
    "sweeps.actions": (
        "harness.choice harness.cli harness.config harness.errors harness.show harness.store harness.system "
        "sweeps.cluster sweeps.plan sweeps.run sweeps.screens sweeps.spec sweeps.studies"
    ),
    "sweeps.reproduce_card": "harness.show harness.store harness.system sweeps.screens sweeps.spec",
    "sweeps.commands": (
        "harness.errors harness.show harness.store sweeps.actions sweeps.plan sweeps.screens sweeps.spec"
    ),
    "sweeps.reproduce": (
        "harness.cli harness.errors harness.paper harness.show harness.store harness.system sweeps.actions "
        "sweeps.commands sweeps.experiments sweeps.reproduce_card"
    ),
    "sweeps.compare": (
        "harness.bench harness.cli harness.config harness.errors harness.show harness.system harness.tasks "
        "optimizers.zoo sweeps.commands sweeps.reproduce sweeps.reproduce_card"
    ),
    # results
    "results.frames": (
        "harness.choice harness.config harness.errors harness.show harness.store "
        "harness.system harness.tasks models optimizers.zoo"
    ),
    "results": "harness.errors harness.store results.frames",
    "results.compare": (
        "harness.choice harness.config harness.paper harness.show harness.store "
        "harness.tasks models optimizers.zoo results.frames"
    ),
    "results.figures": (
        "harness.choice harness.paper harness.show harness.store harness.system results.compare "
        "results.frames"
    ),
    "results.tables": (
        "harness.choice harness.config harness.paper harness.show harness.store "
        "results.compare results.frames"
    ),
    "results.commands": (
        "harness.errors harness.paper harness.show harness.store harness.system results.compare "
        "results.figures results.frames results.tables"
    ),
    "results.page": (
        "harness.show harness.store harness.system results.compare "
        "results.figures results.frames results.tables"
    ),
}

# The modules that load torch when they are imported, by their package; all others do without.
TORCH = {
    "harness.bench": ("contract measured optimizers peers"),
    "harness.cost": ("update watch"),
    "harness.data": ("augment images loss randaugment task text"),
    "harness.export": ("huggingface trained"),
    "harness.parallel": ("batch_norm device overlap sharding"),
    "harness.train": ("building checkpoint curvature eager learner loop precision run spectra stack unfit"),
    "models": ("gpt2 llama modded_gpt resnet stacked transformer vit"),
    "optimizers": (
        "adam adam_forms adopt assemble base cosmos cost elementwise galore groups hybrid linalg lion modes "
        "muon muown prodigy reach routing schedule_free scion soap soap_kin spectral stacks states steps "
        "together watch"
    ),
    "optimizers.spectral": (
        "aurora balance contra_muon dynmuon exact mix_power mix_weights newton_schulz ns_root polar products "
        "rule soft_muon soft_polar stream_power"
    ),
}

# Whose home is one room only.
FOREIGN = {"optuna": "sweeps.studies", "submitit": "sweeps.cluster"}

# Packages that offer names of their own; any other `__init__.py` is a docstring.
PUBLIC = {"optimizers", "models", "results", "harness.config", "harness.store", "optimizers.spectral"}

# Who may let parts from outside be imported: commands that train, check or cost what their user names, and
# the processes that work for them. None of these reads the names from a record or an imported store.
DOORS = {
    "harness.cost.probe",
    "harness.bench.subjects",
    "harness.commands.zoo",
    "harness.commands.run",
    "sweeps.compare",
    "sweeps.run.execute",
    "sweeps.spec.sweep_file",
}

HOUSE = House.of(ROOT)


def test_the_arrows_between_rooms_are_those_of_the_picture():
    assert HOUSE.arrows() == {room: set(words.split()) for room, words in PICTURE.items()}


def test_packages_import_downwards_only():
    graph = {package: set() for package in PACKAGES}
    for room, others in HOUSE.arrows().items():
        graph[room.partition(".")[0]] |= {other.partition(".")[0] for other in others}
    own = {package: others - {package} for package, others in graph.items()}
    assert own["optimizers"] == own["models"] == set()
    assert own["harness"] == {"optimizers", "models"}
    assert own["sweeps"] <= {"harness", "optimizers", "models"} >= own["results"] - {"harness"}
    assert "sweeps" not in own["results"] and "results" not in own["sweeps"]


def test_no_rooms_and_no_files_import_each_other_in_a_circle():
    assert circle(HOUSE.arrows()) == circle(files(HOUSE)) == []


def test_only_these_let_parts_from_outside_be_imported():
    calls = {name for name in HOUSE.files if "parts.allow(" in HOUSE.source(name)}
    assert calls == DOORS


# --- what may be loaded ---


def torch_modules():
    """The modules whose import executes an import of torch, their own or that of another module."""
    loaded = {name: HOUSE.loads(name) for name in HOUSE.files}
    found = {"torch"}
    while more := {name for name, others in loaded.items() if name not in found and others & found}:
        found |= more
    return found - {"torch"}


def test_modules_do_without_torch_unless_they_are_on_the_list():
    listed = {
        module if package == "." else f"{package}.{module}"
        for package, modules in TORCH.items()
        for module in modules.split()
    }
    assert torch_modules() == listed


LOAD_ALL = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    assert "torch" not in sys.modules, name
"""


def test_no_other_loads_torch_through_a_library_either():
    names = sorted(HOUSE.files.keys() - torch_modules() - {"sweeps.run.preload"})  # which names what it loads
    assert len(names) > 100
    done = subprocess.run([sys.executable, "-c", LOAD_ALL, *names], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_optuna_and_submitit_have_one_room_each():
    for library, room in FOREIGN.items():
        users = {name for name in HOUSE.files if library in foreign(HOUSE.source(name))}
        assert users and all(name.startswith(f"{room}.") for name in users), (library, users)


def test_the_leaves_need_torch_and_the_standard_library_only():
    for name in HOUSE.files:
        package = name.partition(".")[0]
        if package in ("optimizers", "models"):
            # `htbench.imported` finds parts from outside, and needs the standard library only.
            assert foreign(HOUSE.source(name)) <= {package, "torch", "htbench"}, name


def foreign(source):
    """The top-level names of all imports in a file that are not of the standard library."""
    return {name.partition(".")[0] for name in anywhere(source)} - sys.stdlib_module_names


def test_only_public_packages_have_code_in_their_init():
    inits = {name: path for name, path in HOUSE.files.items() if path.name == "__init__.py"}
    assert inits.keys() >= PUBLIC
    for name, path in inits.items():
        body = ast.parse(path.read_text()).body
        assert ast.get_docstring(ast.Module(body, [])), f"{name} says what it is for"
        assert name in PUBLIC or len(body) == 1, name


# --- the laws can be broken ---

FILES = {
    "harness/__init__.py": "",
    "harness/low/__init__.py": "",
    "harness/low/a.py": "import os",
    "harness/low/b.py": "def f():\n    from harness.low import a",
    "harness/high/__init__.py": "",
    "harness/high/c.py": "from typing import TYPE_CHECKING\nfrom harness.low.b import f",
    "harness/high/d.py": "from harness.high.c import f\nimport torch.nn",
}


@pytest.fixture
def house(tmp_path):
    def build(**changes):
        for place, source in (FILES | changes).items():
            file = tmp_path / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source)
        return House.of(tmp_path)

    return build


def files(house):
    return {name: house.imports(name) for name in house.files}


def test_a_sound_house_has_floors_and_no_circles(house):
    sound = house()
    assert sound.arrows() == {"harness": set(), "harness.low": set(), "harness.high": {"harness.low"}}
    assert floors(sound.arrows()) == 2 and circle(sound.arrows()) == circle(files(sound)) == []
    assert "torch" in sound.loads("harness.high.d") and "torch" not in sound.loads("harness.high.c")


@pytest.mark.parametrize(
    "upwards",
    [
        "from harness.high import c",
        "import harness.high.c",
        "def f():\n    from harness.high.c import f",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from harness.high.c import f",
    ],
)
def test_an_arrow_upwards_closes_a_circle(house, upwards):
    broken = house(**{"harness/low/a.py": upwards})
    assert {*circle(broken.arrows())} == {"harness.high", "harness.low"}
    assert {*circle(files(broken))} == {"harness.high.c", "harness.low.a", "harness.low.b"}


def test_the_house_stays_small_enough_to_hold():
    """What the house weighs now; lower the bounds with it. To come: 60 arrows on 8 floors in `harness`."""
    assert len(folders(HOUSE)) <= 30
    harness = within(HOUSE.arrows(), "harness")
    assert sum(map(len, harness.values())) <= 85 and floors(harness) <= 9


def test_no_string_names_a_module_above_but_the_table_of_commands():
    named = {
        name
        for name in HOUSE.files
        if name.startswith("harness")
        for node in ast.walk(ast.parse(HOUSE.source(name)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.fullmatch(r"(sweeps|results)(\.\w+)+(:\w+)?", node.value)
    }
    assert named == {"harness.cli"}
