"""Every line of advice, tried: given on real files with results, followed to the letter, and planned."""

import dataclasses
import json
import math

import pytest
import yaml

from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.show.note import templates
from htbench.harness.store import Store
from htbench.harness.store.points import REPLICATE, SEARCH, slot_path
from htbench.harness.store.record import RunRecord
from htbench.harness.system import atomic
from htbench.results.frames.load import load_rows
from htbench.results.tables.answer import answers
from htbench.sweeps.compare import QUICK, Comparison
from htbench.sweeps.plan.replicas import courses, everything_with_states
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.screens.objectives import describe_objective
from htbench.sweeps.spec import sweep_file

BASE = {"task": "digits", "model": "resnet-nano", "steps": 8, "batch_size": 16}


def block(name, rates, **others):
    space = {"optimizer.lr": rates, **{f"optimizer.{axis}": values for axis, values in others.items()}}
    return {"name": name, "set": {"optimizer.name": name}, "space": space}


def file(*blocks, mode=None, trials=None, **more):
    search = {"search": {"mode": mode, "trials": trials}} if mode else {}
    return {
        "name": "asked",
        "base": dict(BASE),
        "blocks": list(blocks),
        "replicate": {"seeds": 3},
        **search,
        **more,
    }


def refined(*blocks, trials):
    return file(*blocks, mode="refine", trials=trials)


OCTAVES, LOG = [0.01, 0.02, 0.04, 0.08], {"low": 0.001, "high": 0.1, "log": True}
COMPARED = yaml.safe_load(Comparison("muon", ["adamw"], "digits", QUICK).to_yaml())
CORNER = {"optimizer.lr": 0.08, "optimizer.p": 0.1}

# A file, the best rate (and the value of another axis), the draws of its search, rounds until it stops, the
# advice, and what a plan of the file must have that follows it.
CASES = {
    "edge": (file(block("muon", [0.01, 0.02, 0.04])), 9, (), 9, "edge_add", {"lr": {0.08}}),
    "hole": (file(block("adamw", [1e-4, 5e-4, 3.0])), 5e-4, (), 9, "edge_add", {"lr": {0.00025, 0.001}}),
    "exclude": (
        file(block("htmuon", OCTAVES, p=[0.1, 0.2]), exclude=[CORNER]),
        {"lr": 0.08, "p": 0.09},
        *((), 9, "edge_listed", {"lr": {0.08}}),
    ),
    "refine": (refined(block("muon", OCTAVES), trials=6), 9, (), 9, "edge_trials", {"lr": {0.64}}),
    "compare": (COMPARED, 99, (), 9, "edge_trials", {"lr": {1.28}}),
    "rounds": (refined(block("muon", OCTAVES), trials=8), 9, (), 1, "edge_goes_on", {"lr": {0.16}}),
    "beside": (
        refined(block("muon", OCTAVES, momentum=[0.9, 0.95]), trials=8),
        {"lr": 0.02, "momentum": 0.8},
        *((), 9, "edge_add", {"momentum": {0.85}}),
    ),
    "range": (file(block("muon", LOG), mode="tpe", trials=3), 9, (0.03, 0.05, 0.0999), 9, "edge_widen", {}),
    "draws": (
        file(block("muon", LOG | {"low": 1e-7}), mode="random", trials=3),
        *(1e-3, (1e-6, 0.05, 1e-3), 9, "edge_trials", {}),
    ),
    "choices": (
        file(block("muon", [0.01, 0.03, 0.1, 0.2]), mode="tpe", trials=3),
        *(9, (0.01, 0.1, 0.2), 9, "edge_add", {}),
    ),
    "few": (
        file(block("muon", OCTAVES), block("sgdm", OCTAVES), replicate={"seeds": 2}),
        0.02,
        (),
        9,
        "open_few",
        {},
    ),
    "seeds": (file(block("muon", [0.02]), block("sgdm", [0.02])), 0.02, (), 9, "open_seeds", {}),
}


def level(config, best):
    """The accuracy of a run: nearer to the best setting is better; rows and fresh seeds differ a little."""
    wanted = best if isinstance(best, dict) else {"lr": best}
    known = {"lr": config.optimizer.lr, **config.optimizer.hyper}
    away = sum(math.log2(known[name] / value) ** 2 for name, value in wanted.items())
    row = 0.004 if config.optimizer.name == "sgdm" else 0
    return (
        0.9 - 0.002 * away - row + (0.005 * math.sin(config.seed * (3 if row else 2)) if config.seed else 0)
    )


def finish(store, one, best):
    """Write the result of a point, as if it had been trained."""
    value = level(one.config, best)
    figures = {
        f"{split}_{name}": x
        for split in ("val", "test")
        for name, x in (("accuracy", value), ("loss", 1 - value))
    }
    config = json.loads(json.dumps(dataclasses.asdict(one.config)))
    record = RunRecord(one.point.key, config, "completed", figures, 8, 1.0, 0.1, 1, {}, 1, {})
    (store.run_folder(one.point.key) / "attempts").mkdir(parents=True, exist_ok=True)
    store.write_record(record)


def fill(root, planned, draws):
    """Draw the settings of slots."""
    for one in planned:
        if one.point.slot and not one.point.key:
            number = int(one.point.slot.rpartition("/")[2])
            settings = one.point.overrides | {"optimizer.lr": draws[number]}
            filling = {"trial": number, "key": run_key(resolve_config(settings)), "overrides": settings}
            atomic.write_json(slot_path(root, one.point.sweep, one.point.slot), filling)


def read(path, tree):
    path.write_text(yaml.safe_dump(tree))
    return sweep_file.load(path)


def plan(store, spec, *, replace=False):
    planned, known = everything_with_states(store, spec)
    write_plan(store.root, spec, planned, replace=replace)
    return planned, known


def carry_out(store, spec, best, draws, rounds):
    """Train what is due, so many times; how far it is."""
    for _ in range(rounds):
        planned, known = plan(store, spec)
        if draws:
            fill(store.root, planned, draws)
            planned, known = plan(store, spec)
        left = [one for one in planned if not known[one.point.id].status.is_settled]
        for one in left:
            config = resolve_config(one.point.overrides)
            finish(store, dataclasses.replace(one, config=config), best)
        store.rebuild_index()
        if not left:
            break


def advice(store):
    """The lines of advice in the answer: on edges, and what would tell rows apart."""
    (answer,) = answers(load_rows(store))
    edges = [note["following"] for place in answer.places for note in place.notes if note.kind == "edge"]
    return list(filter(None, edges)), answer.open


def follow(note, tree):
    """Do to a file what a line says."""
    blocks = [own for own in tree["blocks"] if own["name"] in note.fields.get("blocks", ())]
    if note.kind in ("edge_add", "edge_widen"):
        values = [float(value) for value in note["values"]]
        for own in blocks:
            axis = own["space"][note["setting"]]
            if note.kind == "edge_add":
                axis += values
            else:
                own["space"][note["setting"]] = axis | {note["side"]: values[0]}
    elif note.kind == "edge_listed":
        values = [float(value) for value in note["values"]]
        tree["exclude"] = [row for row in tree["exclude"] if row[note["setting"]] not in values]
    elif note.kind in ("open_few", "open_seeds"):
        tree["replicate"] = {"seeds": note["plan"]}
    if note.fields.get("trials"):
        tree["search"]["trials"] = note["trials"]


def check_status(store, spec, notes):
    """`sweep status` gives the advice of the table, too."""
    planned, known = everything_with_states(store, spec)
    found = [
        describe_objective(spec, course, known) for course in courses(spec, [p.point for p in planned], known)
    ]
    shown = [edge for own in found for edge in own.edges if edge.following is not None]
    assert max(edge.trials for edge in shown) == max(note.fields.get("trials", 0) for note in notes)
    named = {f"{edge.following:g}" for edge in shown if not edge.is_searched}
    assert named == {value for note in notes for value in note.fields.get("values", ())}
    assert found[0].advise()


def is_advice(sentence):
    return any(sign in sentence for sign in ("to go on,", "the search goes on there", "→ replicate"))


def test_a_search_with_one_seed_is_not_told_to_take_more(tmp_path):
    """Its file would be refused; a grid can."""
    tree = file(block("muon", LOG), block("sgdm", LOG), mode="random", trials=3)
    for one, numbers in ((tree, False), (file(block("muon", OCTAVES), block("sgdm", OCTAVES)), True)):
        store, spec = Store(tmp_path / str(numbers)), read(tmp_path / "asked.yaml", one)
        carry_out(store, spec, 0.02, () if numbers else (0.01, 0.02, 0.04), 9)
        (answer,) = answers(load_rows(store))
        assert [(note.kind, bool(note["rows"])) for note in answer.open] == [("open_search", numbers)]


def test_every_kind_of_advice_is_tried():
    assert {case[4] for case in CASES.values()} == {
        kind for kind, own in templates().items() if is_advice(own)
    }


@pytest.mark.parametrize("case", CASES)
def test_advice_followed_to_the_letter_is_planned(tmp_path, case):
    tree, best, draws, rounds, kind, wanted = CASES[case]
    tree = json.loads(json.dumps(tree))
    store, path = Store(tmp_path / "store"), tmp_path / "asked.yaml"
    spec = read(path, tree)
    carry_out(store, spec, best, draws, rounds)
    at_edges, others = advice(store)
    note = {own.kind: own for own in (*at_edges, *others)}[kind]
    if kind.startswith("edge_") and case != "rounds":
        check_status(store, spec, at_edges)
    before = {p.point.id for p in plan(store, spec)[0]} if kind != "edge_goes_on" else set()
    assert note.fields.get("trials") in (None, 0, math.ceil(1.5 * tree.get("search", {}).get("trials", 0)))
    follow(note, tree)
    replace = note.fields.get("option") == "--replace"
    again = read(path, tree)
    if replace:
        with pytest.raises(Exception, match="--replace"):
            plan(store, again)
    planned, _ = plan(store, again, replace=replace)
    new = [p.point for p in planned if p.point.id not in before]
    assert new, "it has an effect"
    if wanted:
        carry_out(store, again, best, draws, 9)
        search = [p.point for p in plan(store, again)[0] if p.point.stage == SEARCH]
        for name, values in wanted.items():
            assert values <= {point.overrides[f"optimizer.{name}"] for point in search}
    if kind.startswith("open_"):
        fresh = [p.point for p in planned if p.point.stage == REPLICATE and p.point.block == "muon"]
        assert len(fresh) == note["plan"]
