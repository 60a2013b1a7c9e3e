"""A search in rounds, as its plan sees it: what follows on results, what it takes, what is refused."""

import dataclasses
import json
import math
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from htbench.harness.errors import UsageError
from htbench.harness.store import Store, layout, naming
from htbench.harness.store.points import REPLICATE, SEARCH, read_points
from htbench.harness.store.record import RunRecord
from htbench.sweeps.plan.planned import search_points, states
from htbench.sweeps.plan.replicas import courses, everything, everything_with_states
from htbench.sweeps.plan.stored import refuse_losses, searched, write_plan
from htbench.sweeps.run.sweep import Sweep
from htbench.sweeps.screens import status
from htbench.sweeps.spec import sweep_file as specs

TEXT = """
name: refined
base: {task: pydocs, model: llama-nano, steps: 2, batch_size: 16}
search: {mode: refine, trials: 12}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.05, 0.1, 0.2, 0.4]}}
  - {name: htmuon, set: {optimizer.name: htmuon},
     space: {optimizer.lr: {low: 0.01, high: 0.08}, optimizer.p: [0.125, 0.25]}}
replicate: {seeds: 2}
"""
OPTIMA = {"sgdm": 0.9, "htmuon": 0.0123}
ROUNDS = {
    ("sgdm", None): [[0.05, 0.1, 0.2, 0.4], [0.8], [1.6], [1.13, 0.566], [0.9]],
    ("htmuon", 0.125): [[0.01, 0.02, 0.04, 0.08], [0.005], [0.0141, 0.00707], [0.0123]],
}


def loss(config):
    """A parabola over the rate, of another depth for each p; far above its minimum a run diverges."""
    rule = config.optimizer
    octaves = math.log2(rule.lr / OPTIMA[rule.name])
    value = 3 + 0.1 * octaves**2 + rule.hyper.get("p", 0) + 1e-5 * (config.seed % 7)
    return value if octaves < 2.5 else None


def finish(store, one, curve=loss):
    """Write the result of a point, as if it had been trained."""
    value = curve(one.config)
    figures = {} if value is None else {"val_perplexity": math.exp(value), "val_loss": value}
    ended = "diverged" if value is None else "completed"
    config = dataclasses.asdict(one.config)
    record = RunRecord(one.point.key, config, ended, figures, 2, 1.0, None, 0, {}, 1, {})
    path = store.run_folder(one.point.key) / "record.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record.to_json()))
    store.rebuild_index()


def rates(points, block, p=None):
    return [
        one.overrides["optimizer.lr"]
        for one in points
        if (one.block, one.overrides.get("optimizer.p")) == (block, p) and one.stage == SEARCH
    ]


def carried_out(store, spec, rnd=None, curve=loss, until=math.inf):
    """Train what is due, in any order, until nothing is or `until` have ended; the rounds as planned."""
    waves, trained = [], 0
    while trained < until:
        planned, known = everything_with_states(store, spec)
        write_plan(store.root, spec, planned)
        left = [one for one in planned if not known[one.point.id].status.is_settled]
        if not left:
            break
        waves.append([one.point for one in left])
        if rnd is not None:
            rnd.shuffle(left)
        for one in left[: max(1, int(min(until - trained, len(left))))]:
            finish(store, one, curve)
            trained += 1
    return waves


@pytest.fixture
def spec(write_spec):
    return specs.load(write_spec(TEXT))


@pytest.fixture
def store(tmp_path):
    layout.begin(tmp_path / "store")
    return Store(tmp_path / "store")


def test_rounds_follow_on_results_then_replicas(store, spec):
    waves = carried_out(store, spec)
    for (block, p), rounds in ROUNDS.items():
        assert [found for wave in waves if (found := rates(wave, block, p))] == rounds
    assert [found for wave in waves if (found := rates(wave, "htmuon", 0.25))] == [[0.01, 0.02, 0.04, 0.08]]
    points = read_points(store.root, "refined")
    fresh = {(p.block, p.overrides["optimizer.lr"]) for p in points if p.stage == REPLICATE}
    assert fresh == {("sgdm", 0.9), ("htmuon", 0.0123)}
    assert len([p for p in points if p.stage == REPLICATE]) == 4
    assert len({p.key for p in points}) == len(points)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 6), max_size=5), rnd=st.randoms(use_true_random=False))
def test_any_cut_and_any_order_end_in_the_same_points(cuts, rnd, tmp_path_factory, spec):
    store = Store(tmp_path_factory.mktemp("cut"))
    layout.begin(store.root)
    for cut in cuts:
        carried_out(store, spec, rnd, until=cut)
    carried_out(store, spec, rnd)
    points = read_points(store.root, "refined")
    for (block, p), rounds in ROUNDS.items():
        assert sorted(rates(points, block, p)) == sorted(sum(rounds, []))
    (store.root / "sweeps/refined/points.jsonl").unlink()  # the runs alone tell the same
    again = [one.point for one in everything(store, spec)]
    assert {p.id for p in again} == {p.id for p in points}


def test_the_loop_on_this_machine_goes_the_same_way(store, spec):
    """`Sweep.settle` is told of every result by itself, in any order."""
    live, rnd = Sweep(spec, store), random.Random(1)
    todo = list(live.planned)
    while todo:
        one = todo.pop(rnd.randrange(len(todo)))
        finish(store, one)
        todo += live.settle(one.point.id, store.record(one.point.key))
    for (block, p), rounds in ROUNDS.items():
        assert sorted(rates([one.point for one in live.planned], block, p)) == sorted(sum(rounds, []))
    assert {p.point.id for p in live.planned} == {p.point.id for p in everything(store, spec)}


@pytest.mark.parametrize("trials", [8, 9, 10, 11])
def test_the_budget_counts_settings_of_all_values_beside_the_rate(store, write_spec, trials):
    spec = specs.load(write_spec(TEXT.replace("trials: 12", f"trials: {trials}")))
    carried_out(store, spec)
    points = [point for point in read_points(store.root, "refined") if point.stage == SEARCH]
    assert len({p.candidate for p in points if p.block == "htmuon"}) == trials
    assert len({p.candidate for p in points if p.block == "sgdm"}) <= trials


def test_more_seeds_and_more_trials_go_on_and_fewer_rates_take_back_nothing(store, write_spec):
    few = specs.load(write_spec(TEXT.replace("trials: 12", "trials: 9")))
    carried_out(store, few)
    text = TEXT.replace("search:", "seeds: [0, 1]\nsearch:").replace("[0.05, 0.1, 0.2, 0.4]", "[0.1, 0.2]")
    more = specs.load(write_spec(text))
    refuse_losses(store.root, more, searched(store.root, more))
    carried_out(store, more)
    points = read_points(store.root, "refined")
    assert sorted(rates(points, "sgdm")) == sorted(2 * sum(ROUNDS["sgdm", None], []))
    assert {p.overrides["optimizer.lr"] for p in points if p.stage == REPLICATE} == {0.9, 0.0123}


def test_a_file_with_another_setting_loses_what_was_found(store, write_spec, spec):
    carried_out(store, spec)
    other = specs.load(write_spec(TEXT.replace("steps: 2", "steps: 3")))
    with pytest.raises(UsageError, match=r"has \d+ runs that this one lacks, with steps=2"):
        refuse_losses(store.root, other, searched(store.root, other))


def test_where_all_diverges_every_line_gets_a_lower_rate(store, write_spec):
    spec = specs.load(write_spec(TEXT))
    waves = carried_out(store, spec, curve=lambda config: None)
    assert rates(waves[1], "sgdm") == [0.025]
    assert (rates(waves[1], "htmuon", 0.125), rates(waves[1], "htmuon", 0.25)) == ([0.005], [0.005])
    points = read_points(store.root, "refined")
    assert {p.stage for p in points} == {SEARCH} and len(points) == 24, "nobody wins"


def test_two_blocks_that_want_the_same_runs_both_end(store, write_spec):
    block = "{name: NAME, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.2, 0.4]}}"
    blocks = [block.replace("NAME", name) for name in ("one", "two")]
    text = TEXT[: TEXT.index("blocks:")] + f"blocks: [{', '.join(blocks)}]\nreplicate: {{seeds: 1}}\n"
    live = Sweep(specs.load(write_spec(text)), store)
    todo, known = list({one.point.id: one for one in live.planned}.values()), set()
    while todo:
        one = todo.pop(0)
        known.add(one.point.id)
        finish(store, one)
        new = live.settle(one.point.id, store.record(one.point.key))
        todo += {p.point.id: p for p in new if p.point.id not in known | {t.point.id for t in todo}}.values()
    assert len(live.replicas) == 2 and all(live.replicas.values())


def test_status_tells_the_round(store, spec):
    def rounds():
        points = [one.point for one in everything(store, spec)]
        return {b.block: b.rounds for b in status.read_screen(store, [(spec, points)]).blocks}

    assert rounds()["sgdm"] == status.Rounds("optimizer.lr", 0, 12, [0.05, 0.1, 0.2, 0.4])
    for one in search_points(spec):
        finish(store, one)
    stored = [one.point for one in search_points(spec)]  # the next round is in no plan yet
    after = {b.block: b for b in status.read_screen(store, [(spec, stored)]).blocks}
    assert after["sgdm"].rounds == status.Rounds("optimizer.lr", 4, 12, [0.8]) and after["sgdm"].waiting == 3
    ways = courses(spec, stored, states(store, stored))
    assert [[p.stage for p in way.to_come] for way in ways] == [[SEARCH, REPLICATE, REPLICATE]] * 2
    assert rounds()["sgdm"] == after["sgdm"].rounds
    carried_out(store, spec)
    assert {
        b.rates for b in map(lambda r: dataclasses.replace(r, rates=tuple(r.rates)), rounds().values())
    } == {()}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "trials: 12",
            "trials: 3",
            "The first round of block 'sgdm' has 4 settings, more than search.trials=3",
        ),
        (", trials: 12", "", "search.mode 'refine' needs search.trials"),
        ("[0.05, 0.1, 0.2, 0.4]", "[0.05]", "two rates or more, each twice the one before.* not .0.05."),
        ("[0.05, 0.1, 0.2, 0.4]", "[0.01, 0.1]", "each twice the one before.* not .0.01, 0.1."),
        ("[0.05, 0.1, 0.2, 0.4]", "[0, 0.1]", "each twice the one before"),
        ("{optimizer.lr: [0.05, 0.1, 0.2, 0.4]}", "{optimizer.momentum: [0.8, 0.9]}", "'sgdm' has no rate"),
        ("low: 0.01", "low: -1", "must have low < high"),
        ("trials: 12", "trials: 12, pruner: median", "search.pruner means nothing to mode 'refine'"),
        ("trials: 12", "trials: 12, rate: steps", "search.rate .steps. is not tuned"),
        ("mode: refine", "mode: tpe, rate: optimizer.lr", "search.rate means nothing to mode 'tpe'"),
        ("search:", "exclude: [{optimizer.lr: 0.1}]\nsearch:", "'exclude' can't hold optimizer.lr"),
    ],
)
def test_what_cannot_be_refined_is_refused_in_one_sentence(write_spec, old, new, said):
    assert old in TEXT
    with pytest.raises(UsageError, match=said):
        search_points(specs.load(write_spec(TEXT.replace(old, new))))


@pytest.mark.parametrize(
    ("rule", "rate", "values", "said"),
    [
        ("htmuon", "optimizer.interval", [1, 2], "optimizer.interval takes whole numbers only"),
        ("adamw", "optimizer.aux_lr", [0.001, 0.002], "all of its values mean the same run"),
    ],
)
def test_a_rate_without_values_between_or_without_effect_is_refused(write_spec, rule, rate, values, said):
    text = TEXT[: TEXT.index("blocks:")].replace("trials: 12", f"trials: 12, rate: {rate}")
    with pytest.raises(UsageError, match=said):
        search_points(specs.load(write_spec(f"{text}space: {{optimizer.name: [{rule}], {rate}: {values}}}")))


def test_the_example_is_a_plan(tmp_path):
    spec = specs.load(naming.files("refine-digits", tmp_path)[0])
    assert [rates([p.point for p in search_points(spec)], name) for name in ("sgdm", "muon")] == [
        [0.05, 0.1, 0.2, 0.4],
        [0.01, 0.02, 0.04, 0.08],
    ]
