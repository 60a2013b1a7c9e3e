"""`htbench bench optimizers`: pairs, periods, costs and peers are what its columns say. Never how fast."""

import dataclasses
import json

import pytest
import torch

from htbench import models, optimizers
from htbench.harness import cli
from htbench.harness.bench import peers, subjects
from htbench.harness.bench import turns as pairs
from htbench.harness.bench.optimizers import (
    Bench,
    OptimizersFacts,
    Row,
    Settings,
    Side,
    list_machine,
    report,
)
from htbench.harness.bench.subjects import entry
from htbench.harness.bench.turns import Measurement
from htbench.harness.cost.update import memory_of
from htbench.harness.errors import UsageError
from htbench.harness.show import terminal
from htbench.harness.show.note import Note
from htbench.harness.system import environment
from tests.helpers.json_fields import promised

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def bench():
    return Bench(Settings("llama-nano", {}, rounds=1), entry("muon"))


# --- pairs ---


class Scripted:
    """Steps of a known length on a machine that gets slower by a second per step."""

    now = 0.0
    order = ""

    def __init__(self, name, length):
        self.name, self.length = name, length

    def step(self, clock):
        began = clock()
        Scripted.order += self.name
        Scripted.now += self.length + len(Scripted.order)
        return clock() - began


@pytest.fixture
def scripted():
    Scripted.now, Scripted.order = 0.0, ""
    return Scripted("A", 10.0), Scripted("B", 20.0), lambda: Scripted.now


def test_turns_are_mirrored_and_drift_cancels(scripted):
    ours, theirs, clock = scripted
    a, b = pairs.take_turns(ours, theirs, 3, clock)
    assert Scripted.order == "ABBA" * (3 + pairs.DROPPED)
    assert a[0] == (15.0, 18.0) and b[0] == (26.0, 27.0)  # steps 5 and 8, 6 and 7: the first round is dropped
    differences = [y - x for x, y in zip(pairs.per_step(a, 1), pairs.per_step(b, 1), strict=True)]
    assert differences == [10.0] * 3


def test_a_limit_leaves_one_round(scripted):
    ours, theirs, clock = scripted
    a, b = pairs.take_turns(ours, theirs, 9, clock, limit=0)
    assert len(a) == len(b) == 1 and len(Scripted.order) == 8


@pytest.mark.parametrize("times", [[(1.0, 11.0), (2.0, 12.0)], [(11.0, 1.0), (12.0, 2.0)]])
def test_the_mean_is_that_of_a_whole_period_of_which_the_slower_step_is_one(times):
    assert pairs.per_step(times, 1) == pairs.per_step(times, 2) == [6.0, 7.0]
    assert pairs.per_step(times, 10) == pytest.approx([2.0, 3.0])


def test_gradients_survive_an_optimizer_that_spoils_them():
    W = torch.nn.Parameter(torch.zeros(2))
    seen = []

    class Spoiler:
        def step(self):
            seen.append(W.grad.tolist())
            W.grad.fill_(7)
            W.grad = None

    sets = [{"W": torch.ones(2)}, {"W": torch.full((2,), 2.0)}]
    side = Side(Spoiler(), {"W": W}, sets)
    for _ in range(3):
        side.step(lambda: 0.0)
    assert seen == [[1, 1], [2, 2], [1, 1]]


# --- entries ---


def test_settings_belong_to_the_name_before_them():
    chosen = subjects.entries("muon,htmuon_mix:mix_set=k5,mix_dtype=bfloat16,soap,htmuon_mix:mix_set=k7")
    assert [one.label for one in chosen] == [
        *("muon", "htmuon_mix:mix_set=k5,mix_dtype=bfloat16", "soap", "htmuon_mix:mix_set=k7")
    ]
    assert chosen[1].hyper["mix_set"] == "k5" and chosen[1].hyper["mix_dtype"] == "bfloat16"


def test_without_a_list_every_row_is_measured_and_every_target():
    chosen = subjects.entries(None)
    assert {one.label for one in chosen} >= set(optimizers.ZOO)
    assert sorted(one.target for one in chosen if one.target) == [1.05, 1.22, 1.35, 2.0, 2.0, 8.0]
    assert len({one.label for one in chosen}) == len(chosen)


@pytest.mark.parametrize(
    ("label", "target"),
    [
        ("htmuon", 2.0),
        ("htmuon:p=0.25", 2.0),
        ("htmuon:interval=5", None),
        ("htmuon_ns", None),
        ("htmuon_mix", 1.22),
        ("htmuon_mix:mix_set=k8", None),
        ("muon", None),
    ],
)
def test_targets_go_by_the_settings(label, target):
    assert entry(label).target == target


@pytest.mark.parametrize(
    ("label", "period", "measured"),
    [
        ("soap", 10, {"precondition_frequency": 2}),
        ("galore", 200, {"update_gap": 2}),
        ("galore:update_gap=1", 1, {"update_gap": 1}),
        ("htmuon:interval=5", 5, {"interval": 2}),
        ("muon", 1, {}),
    ],
)
def test_periods_are_cut_to_two_steps(label, period, measured):
    found = entry(label)
    assert found.period == period
    assert {key: value for key, value in found.measured.items() if key in measured} == measured


def test_the_precision_of_newton_schulz_is_set_where_there_is_one():
    assert entry("muon", "float32").hyper["ns_dtype"] == "float32"
    assert entry("muon:ns_dtype=bfloat16", "float32").hyper["ns_dtype"] == "bfloat16"
    assert "ns_dtype" not in entry("adamw", "float32").hyper


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("mun", "unknown optimizer 'mun'; did you mean muon"),
        ("muon:p=1", "muon has no hyperparameter 'p'"),
        ("htmuon:p=2", "p must be a finite number in \\[-0.5, 1\\], got '2'"),
        ("htmuon:p", "'p' is no setting; write key=value"),
        ("", "unknown optimizer ''"),
    ],
)
def test_what_cannot_be_measured_is_told_in_a_sentence(label, words):
    with pytest.raises(UsageError, match=words):
        entry(label)


# --- rows ---


KINDS = "sgdm,adam,sophia,schedule_free,muon,htmuon,soap,galore"  # of rules


def test_a_row_of_every_kind_is_measured(bench):
    chosen = subjects.entries(KINDS)
    beside = Bench(bench.settings, entry("adamw"))
    rows = {one.label: beside.measure(one) for one in chosen}
    assert list(rows) == KINDS.split(",")
    for row in rows.values():
        assert row.ours > 0 and row.theirs > 0 and row.ratio.median > 0 and row.ratio.n == 1
        assert row.state_bytes >= 4  # a momentum at least
        assert (row.full is None) == (row.period == 1)
        assert row.ratio.target is None  # those are in units of muon
    counters = 4 * len(list(bench.model.parameters())) / models.count_parameters("llama-nano")
    assert rows["adam"].state_bytes == pytest.approx(8 + counters)
    assert rows["sgdm"].state_bytes == 4
    assert rows["sophia"].state_bytes == 8  # the curvature is there
    row = bench.measure(entry("htmuon_mix:mix_set=k5"))
    assert row.ratio.target == 1.05 and row.ratio.unit == "x muon"


def test_state_counts_memory_once_however_it_is_nested():
    class Projector:
        def __init__(self):
            self.basis = torch.zeros(5)

    x = torch.zeros(100)
    W = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([W], lr=1.0)
    optimizer.state[W] = {"m": x, "view": x[:10], "Q": {0: [torch.zeros(10)]}, "P": Projector(), "step": 3}
    assert memory_of(optimizer.state) == 4 * (100 + 10 + 5)


# --- peers ---


def test_every_peer_has_a_row():
    assert {peer.row for peer in peers.PEERS} == {
        *("muon", "normuon", "adamuon", "adamw", "cautious", "mars", "sophia", "soap", "kl_soap", "galore"),
        *("lion", "signum", "ademamix", "adopt", "schedule_free", "prodigy"),
    }
    assert {peer.row for peer in peers.PEERS} <= set(optimizers.ZOO)


def test_what_is_not_installed_is_said(bench, monkeypatch):
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda package: None)
    found = [bench.measure(entry("soap"), peer) for peer in peers.peers_of("soap")]
    assert [(one.beside, one.note, one.ratio) for one in found] == [
        ("pytorch_optimizer SOAP", "not installed", None),
        ("heavyball SOAP", "not installed", None),
    ]


def test_what_fails_in_other_code_is_said(bench):
    def fail(*args):
        raise RuntimeError("no compiler\nand much more")

    broken = peers.Peer("adam", "torch.optim", "Adam", fail, ())
    found = bench.measure(entry("adam"), broken)
    assert found.note == "fails: RuntimeError: no compiler" and found.ratio is None


def test_a_peer_that_knows_only_bfloat16_gets_no_float32(bench):
    (torchs, *_) = peers.peers_of("muon")
    assert bench.measure(entry("muon", "float32"), torchs).note == "iterates in bfloat16 only"


@pytest.mark.parametrize("peer", peers.PEERS, ids=lambda peer: f"{peer.row}, {peer.label}")
def test_peers_do_the_same_steps(bench, peer):
    """Those that are installed; the documentation names those that can't be made to."""
    if peer.version is None:
        pytest.skip("not installed")
    if peer.label in ("heavyball Muon(other polynomials)", "heavyball SOAP", "heavyball KLSOAP"):
        pytest.skip("compiles for minutes")
    if peer.label == "torch AdamW(fused)":
        pytest.skip("another rule, which says what a pass over memory costs")
    one = entry(peer.row)
    ours, theirs = bench._ours(one, peer.matrices), bench._theirs(one, peer)
    assert ours.params.keys() == theirs.params.keys()
    for gradients in (*bench.gradients, *bench.gradients):
        for side in (ours, theirs):
            for name, p in side.params.items():
                p.grad = gradients[name].clone()
            side.optimizer.step()
    start = dict(bench.model.named_parameters())
    moved = sum((p - start[name]).square().sum() for name, p in ours.params.items()).sqrt()
    apart = sum((p - theirs.params[name]).square().sum() for name, p in ours.params.items()).sqrt()
    assert 0 < apart / moved < TOLERANCE.get(peer.label, 0.05)  # 0.02: order of sums in bfloat16


# AdaMuon without the sign; bases of rank-deficient matrices and of another phase.
TOLERANCE = {"pytorch_optimizer AdaMuon": 1, "timm Muon(adamuon)": 1, "pytorch_optimizer SOAP": 1}
TOLERANCE |= {"pytorch_optimizer GaLore": 1}


# --- the command ---


def test_the_command_prints_json_with_every_entry(capsys):
    words = ["bench", "optimizers", "--model", "llama-nano", "--vocab", "64", "--rounds", "6", "--json"]
    words += ["--only", "muon,htmuon:interval=5,p=0.25,galore", "--ns-dtype", "float32", "--no-peers"]
    assert cli.main(words) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert [row["label"] for row in report["rows"]] == ["muon", "htmuon:interval=5,p=0.25", "galore"]
    promised("bench optimizers", report)
    assert report["parameters"] == models.count_parameters("llama-nano", vocabulary=64)
    assert report["environment"]["cpu_capability"] and report["clock"] == "CPU time"
    assert {row["ratio"]["n"] for row in report["rows"]} == {6}
    assert report["peers"] is False and {row["beside"] for row in report["rows"]} == {"muon"}
    assert "htmuon:interval=5,p=0.25: " in printed.err
    assert f"galore: {report['rows'][2]['ratio']['median']:.3f} x muon" in printed.err


def test_the_command_prints_tables_with_the_peer_of_torch(capsys, monkeypatch):
    monkeypatch.setattr(peers, "PEERS", peers.PEERS[:1])
    words = ["bench", "optimizers", "--model", "llama-nano", "--vocab", "64", "--rounds", "6"]
    words += ["--only", "muon,soap"]
    assert cli.main(words) == 0
    printed = capsys.readouterr()
    assert " x torch Muon" in printed.err
    lines = printed.out.splitlines()
    title = "llama-nano, vocabulary 64: 61,680 parameters in float32, cpu, 1 thread, CPU time"
    assert lines[0].endswith(title) and ("missed by none. " in lines[0]) == ("MISSED" not in printed.out)
    assert max(len(line) for line in lines if line.startswith(("optimizer", "muon", "soap  "))) <= 110
    starts = [line.split()[0] for line in lines if line]
    assert starts.count("muon") == 2 and starts.count("soap") == 1
    (period,) = [line for line in lines if line.startswith("soap: a mean over 10 steps")]
    (torchs,) = [line for line in lines if "torch Muon" in line]
    assert torchs.endswith(("1 met", "1 MISSED"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "mun"], "unknown optimizer 'mun'"),
        (["--against", "htmuon:p=7"], "p must be a finite number"),
        (["--rounds", "5"], "--rounds must be at least 6, not 5"),
        (["--threads", "0"], "--threads must be at least 1, not 0"),
        (["--model", "lama"], "unknown model 'lama'"),
        (["--model", "resnet-nano", "--vocab", "9"], "resnet-nano has no setting 'vocabulary'"),
        (["--device", "tpu"], "invalid choice: 'tpu'"),
    ],
)
def test_bad_words_end_the_command(words, sentence, capsys):
    assert cli.main(["bench", "optimizers", *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said(capsys):
    assert cli.main(["bench", "optimizers", "--model", "llama-nano", "--device", "cuda"]) == 2
    assert "sees none here" in capsys.readouterr().err


# --- the report ---

MACHINE = {"cpu": "x", "cpu_capability": "AVX2", "torch": "2", "cpu_flags": None, "native_bfloat16": True}
FACTS = {
    **{"model": "llama-60m", "overrides": {"vocabulary": 9}, "parameters": 1000, "dtype": "float32"},
    **{"device": "cpu", "threads": 1, "clock": "CPU time", "against": "muon", "environment": MACHINE},
    "subject": "optimizers",
}


def row_of(label, times, target, **more):
    ratio = Measurement.of(label, "x muon", times, target)
    about = {"beside": "muon", "version": "", "matrices": False, "period": 10} | more
    times = {"ours": 2000.0, "theirs": 9.0, "ordinary": 5.0, "full": 12345.6}
    return Row(label, **about, **times, ratio=ratio, state_bytes=12.0)


def test_tables_tell_what_is_met():
    rows = [row_of("htmuon_mix:mix_set=k7", [1.5, 1.6], 1.55), row_of("b", [1.6, 1.7], 1.55)]
    found = report(OptimizersFacts(**FACTS, rows=[*rows, row_of("c", [2.0], None)]))
    where = "llama-60m, vocabulary 9: 1,000 parameters in float32, cpu, 1 thread, CPU time"
    assert found.title == f"2 bounds, missed by b. {where}"
    (section,) = found.sections
    assert [one[-1].value for one in section.rows] == ["1.55 met", "1.55 MISSED", ""]
    assert max(map(len, terminal.write([found]).splitlines()[3:8])) <= 110
    cells = [column.text(cell) for column, cell in zip(section.columns, section.rows[2], strict=True)]
    assert cells == [*("c", "muon", "1", "2000.0", "9.000", "2.000", "2.000 .. 2.000", "12.00", "")]
    period = Note("bench_period", label="b", period=10, full=12345.6, other=5.0)
    assert period in section.notes


def test_the_table_leaves_out_what_was_not_measured():
    peer = {"beside": "pytorch_optimizer AdaMuon", "version": "4.1.0", "matrices": True}
    found = row_of("adamuon", [12.345], 1.05, **peer)
    missing = dataclasses.replace(found, ratio=None, note="not installed")
    (section,) = report(OptimizersFacts(**FACTS, rows=[found, missing])).sections
    (row,) = section.rows
    assert [row[0].value, row[1].value, row[-1].value] == [
        *("adamuon *", "pytorch_optimizer AdaMuon", "1.05 MISSED")
    ]
    kinds = ["bench_optimizer_columns", "bench_matrices_alone", "bench_no_peer"]
    assert [note.kind for note in section.notes] == kinds


# --- precision ---


@pytest.mark.parametrize("native", [True, False])
def test_a_machine_that_emulates_bfloat16_is_warned_about(native):
    notes = list_machine(MACHINE | {"native_bfloat16": native})
    assert [note.kind for note in notes] == ["bench_machine", *["bench_emulated"] * (not native)]


@pytest.mark.parametrize(
    ("flags", "native"),
    [("flags : fma avx512_bf16", True), ("Features : fp bf16", True), ("flags : avx2", False), ("", None)],
)
def test_native_bfloat16_is_read_from_the_processor(flags, native, monkeypatch, tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text(f"model name : x\n{flags}\n")
    monkeypatch.setattr(environment, "Path", lambda _: path)
    assert environment.describe_with_cpu_flags("cpu")["native_bfloat16"] is native


# Of the lower end, as in tables of the sign test.
@pytest.mark.parametrize(("n", "rank"), [(1, 1), (5, 1), (6, 1), (9, 2), (20, 6), (60, 22), (100, 40)])
def test_interval_of_the_median(n, rank):
    found = Measurement.of("x", "s", range(n, 0, -1))
    assert (found.low, found.median, found.high) == (rank, (n + 1) / 2, n + 1 - rank)
