"""`htbench bench optimizers`: pairs, periods, costs and peers are what its columns say. Never how fast."""

import dataclasses
import json
import math
import subprocess
import sys

import pytest
import torch

from htbench import models, optimizers
from htbench.harness import cli
from htbench.harness.bench import machine as cost
from htbench.harness.bench import peers, subjects
from htbench.harness.bench import turns as pairs
from htbench.harness.bench.optimizers import Bench, OptimizersFacts, PeerRow, Row, Settings, Side, report
from htbench.harness.bench.subjects import entry
from htbench.harness.bench.turns import Measurement, machine
from htbench.harness.cost.update import memory_of
from htbench.harness.cost.watch import DECOMPOSITIONS
from htbench.harness.errors import UsageError
from htbench.harness.show import terminal
from htbench.harness.show.note import Note
from htbench.harness.system import environment
from tests.helpers.json_fields import promised

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _small_peak(monkeypatch):
    monkeypatch.setitem(cost.PEAK_SIZE, "cpu", 64)


@pytest.fixture(scope="module")
def bench():
    return Bench(Settings("llama-nano", {}, rounds=1))


def silent(label):
    pass


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
    differences = [y - x for x, y in zip(pairs.per_step(a, 1, 0), pairs.per_step(b, 1, 0), strict=True)]
    assert differences == [10.0] * 3


def test_a_limit_leaves_one_round(scripted):
    ours, theirs, clock = scripted
    a, b = pairs.take_turns(ours, theirs, 9, clock, limit=0)
    assert len(a) == len(b) == 1


def test_every_round_is_told(scripted):
    ours, theirs, clock = scripted
    told = []
    pairs.take_turns(ours, theirs, 2, clock, after_round=lambda: told.append(Scripted.order))
    assert [len(order) for order in told] == [4, 8, 12]


def test_the_mean_is_that_of_a_whole_period():
    times = [(1.0, 11.0), (2.0, 12.0)]
    assert pairs.per_step(times, 1, 0) == pairs.per_step(times, 2, 1) == [6.0, 7.0]
    assert pairs.per_step(times, 10, 1) == pytest.approx([2.0, 3.0])
    assert pairs.per_step(times, 10, 0) == pytest.approx([10.0, 11.0])


def test_the_special_step_is_the_named_one_else_the_dearer_one():
    assert pairs.special_step([(1.0, 2.0), (5.0, 3.0)], None) == 0
    assert pairs.special_step([(1.0, 2.0), (1.0, 3.0)], None) == 1
    assert pairs.special_step([(1.0, 2.0)], 0) == 0


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
    ("label", "period", "special", "measured"),
    [
        ("soap", 10, None, {"precondition_frequency": 2}),
        ("galore", 200, None, {"update_gap": 2}),
        ("galore:update_gap=1", 1, None, {"update_gap": 1}),
        ("htmuon:interval=5", 5, 1, {"interval": 2}),
        ("htmuon:interval=5,interval_phase=first", 5, 0, {"interval": 2}),
        ("muon", 1, None, {}),
    ],
)
def test_periods_are_cut_to_two_steps(label, period, special, measured):
    found = entry(label)
    assert (found.period, found.special) == (period, special)
    assert {key: value for key, value in found.measured.items() if key in measured} == measured


def test_the_phase_of_an_interval_is_the_named_step(bench):
    """After the dropped round a round's first step has an odd number: 2, 4, ... are the second ones."""
    for phase, special in (("last", 1), ("first", 0)):
        one = entry(f"htmuon:interval=5,interval_phase={phase}")
        side = bench._ours(one)
        flops = []
        for _ in range(2):
            side.load()
            with cost.CallCount() as count:
                side.optimizer.step()
            flops.append(sum(n for kind, n in count.flops.items() if kind not in DECOMPOSITIONS))
        assert flops[special] < flops[1 - special]  # SVD instead of Newton-Schulz


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


def muon_flops(model, steps=5):
    """Newton-Schulz: two products of r x R x r and one of r x r x r in each iteration."""
    sides = [sorted(p.shape) for p in model.parameters() if p.ndim == 2]
    return sum(steps * (4 * r * r * R + 2 * r**3) for r, R in sides)


def test_every_row_of_the_zoo_is_measured(bench):
    chosen = subjects.entries(",".join(optimizers.ZOO))
    rows = {row.label: row for row in bench.rows(chosen, entry("adamw"), silent)}
    assert list(rows) == list(optimizers.ZOO)
    for row in rows.values():
        assert row.step.median > 0 and row.ratio.median > 0 and row.ratio.n == 1
        assert row.share >= 0 and math.isfinite(row.share)
        assert row.state_bytes >= 4  # a momentum at least
        assert (row.special is None) == (row.period == 1)
        assert row.ratio.target is None  # those are in units of muon
    matrices = {row.label for row in rows.values() if sum(row.flops.values()) > 0}
    elementwise = {name for name, row in optimizers.ZOO.items() if row.family == "elementwise"}
    assert set(rows) - matrices == elementwise
    assert sum(rows["muon"].flops.values()) == muon_flops(bench.model)
    assert sum(rows["muon_svd"].flops.values()) < muon_flops(bench.model)  # an SVD counts as nothing
    counters = 4 * len(list(bench.model.parameters())) / models.count_parameters("llama-nano")
    assert rows["adam"].state_bytes == pytest.approx(8 + counters)
    assert rows["sgdm"].state_bytes == 4
    assert rows["sophia"].state_bytes == 8  # the curvature is there


def test_the_mixture_with_five_steps_costs_what_muon_costs(bench):
    (row,) = bench.rows([entry("htmuon_mix:mix_set=k5")], entry("muon"), silent)
    assert sum(row.flops.values()) == muon_flops(bench.model)
    assert row.ratio.target == 1.05 and row.ratio.unit == "x muon"


def test_calls_are_counted_without_views(bench):
    with cost.CallCount() as count:
        x = torch.ones(4, 6)
        x.mT.flatten()[:3].unbind()[0].view(1).add_(1).detach()
    assert count.calls == 3  # ones, the copy of the transpose, add_
    (row,) = bench.rows([entry("sgdm")], entry("muon"), silent)
    assert row.calls == 4 * len(list(bench.model.parameters()))  # decay, momentum, sum, update


def test_flops_are_told_apart_by_precision():
    with cost.CallCount() as count:
        x, y = torch.ones(2, 3), torch.ones(3, 5, dtype=torch.float64)
        _ = x @ x.mT
        _ = torch.einsum("bij,bjk->bik", y.expand(7, 3, 5), y.mT.expand(7, 5, 3))
        _ = torch.linalg.svd(x)
    assert count.flops["float32"] == 2 * 2 * 3 * 2
    assert count.flops["float64"] == 7 * 2 * 3 * 5 * 3


def test_the_share_is_the_time_of_the_products_at_the_peak():
    now = iter([0.0, 5.0, 5.0, 7.0])  # the first product warms up
    peak = cost.Peak("cpu", lambda: next(now))
    assert peak["float32"] == 2 * 64**3 / 2.0
    assert peak["float32"] == peak.rates["float32"]  # measured once


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
    found = list(bench.beside(entry("soap"), silent))
    assert [(one.peer, one.note, one.ratio) for one in found] == [
        ("pytorch_optimizer SOAP", "not installed", None),
        ("heavyball SOAP", "not installed", None),
    ]


def test_what_fails_in_other_code_is_said(bench, monkeypatch):
    def fail(*args):
        raise RuntimeError("no compiler\nand much more")

    broken = peers.Peer("adam", "torch.optim", "Adam", fail, ())
    monkeypatch.setattr(peers, "PEERS", (broken,))
    (found,) = bench.beside(entry("adam"), silent)
    assert found.note == "fails: RuntimeError: no compiler" and found.ratio is None


def test_a_peer_that_knows_only_bfloat16_gets_no_float32(bench):
    notes = {one.peer: one.note for one in bench.beside(entry("muon", "float32"), silent)}
    assert notes["torch Muon"] == "iterates in bfloat16 only"


@pytest.mark.parametrize("peer", peers.PEERS, ids=lambda peer: f"{peer.row}, {peer.label}")
def test_peers_do_the_same_steps(bench, peer):
    """Those that are installed; the documentation names those that can't be made to."""
    if peer.version is None:
        pytest.skip("not installed")
    if peer.label in ("heavyball Muon", "heavyball SOAP", "heavyball KLSOAP"):
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
    assert set(report["peak_flops_per_second"]) == {"float32", "bfloat16"}
    assert {row["ratio"]["n"] for row in report["rows"]} == {6}
    assert (
        report["rows"][1]["hyper"]["ns_dtype"] == "float32"
        and report["beside"] == []
        and report["peers"] is False
    )
    assert "htmuon:interval=5,p=0.25: " in printed.err
    assert f"galore: {report['rows'][2]['ratio']['median']:.3f} x muon" in printed.err


def test_the_command_prints_tables_with_the_peer_of_torch(capsys, monkeypatch):
    monkeypatch.setattr(peers, "PEERS", peers.PEERS[:1])
    words = ["bench", "optimizers", "--model", "llama-nano", "--rounds", "6", "--only", "muon,soap"]
    assert cli.main(words) == 0
    printed = capsys.readouterr()
    assert "x torch Muon" in printed.err
    lines = printed.out.splitlines()
    assert lines[0].startswith("llama-nano: 86,256 parameters in float32, cpu, 1 thread, CPU time")
    assert max(len(line) for line in lines if line.startswith(("optimizer", "muon", "soap  "))) <= 110
    starts = [line.split()[0] for line in lines if line]
    assert starts.count("muon") == 2 and starts.count("soap") == 1
    (period,) = [line for line in lines if line.startswith("soap: a mean over 10 steps")]
    (torchs,) = [line for line in lines if "torch Muon" in line]
    assert torchs.endswith(("1 met", "1 MISSED"))


def test_mistakes_are_told_before_torch_is_loaded():
    program = (
        "import sys\nfrom htbench.harness import cli\n"
        "status = cli.main(['bench', 'optimizers', '--only', 'mun'])\n"
        "assert status == 2 and 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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
    **{"peak_flops_per_second": {"float32": 9e10}, "subject": "optimizers"},
}


def test_tables_tell_what_is_met():
    def row(label, times, target):
        ratio = Measurement.of(label, "x muon", times, target)
        step = Measurement.of(label, "ms/step", [1e3 * x for x in times])
        return Row(label, label, {}, step, ratio, 10, 5.0, 12345.6, {"float32": 2.5e12}, 0.5, 57.0, 12.0)

    rows = [row("htmuon_mix:mix_set=k7", [1.5, 1.6], 1.55), row("b", [1.6, 1.7], 1.55), row("c", [2.0], None)]
    found = report(OptimizersFacts(**FACTS, rows=rows, beside=[]))
    assert found.title == "llama-60m, vocabulary 9: 1,000 parameters in float32, cpu, 1 thread, CPU time"
    (section,) = found.sections
    assert [one[-1].value for one in section.rows] == ["1.55 met", "1.55 MISSED", ""]
    assert max(map(len, terminal.write([found]).splitlines()[3:8])) <= 110
    cells = [column.text(cell) for column, cell in zip(section.columns, section.rows[2], strict=True)]
    assert cells == [*("c", "1", "2000.0", "2.000", "2.000 .. 2.000", "2500", "50%", "57", "12.00", "")]
    period = Note("bench_period", label="b", period=10, full=12345.6, other=5.0)
    assert period in section.notes


def test_the_table_of_peers_leaves_out_what_was_not_measured():
    one = Measurement.of("x", "ms/step", [123456.7])
    ratio = Measurement.of("x", "x", [12.345], 1.05)
    found = PeerRow("adamuon", "pytorch_optimizer AdaMuon", "4.1.0", True, one, one, ratio, 8.0)
    missing = dataclasses.replace(found, ratio=None, note="not installed")
    _, section = report(OptimizersFacts(**FACTS, rows=[], beside=[found, missing])).sections
    (row,) = section.rows
    assert [row[0].value, row[1].value, row[-1].value] == [
        *("adamuon *", "pytorch_optimizer AdaMuon", "1.05 MISSED")
    ]
    assert [note.kind for note in section.notes] == ["bench_matrices_alone", "bench_no_peer"]


# --- precision ---


@pytest.mark.parametrize(
    ("native", "in_bfloat16", "warned"), [(True, True, False), (False, True, True), (False, False, False)]
)
def test_a_machine_that_emulates_bfloat16_is_warned_about(native, in_bfloat16, warned):
    notes = machine(MACHINE | {"native_bfloat16": native}, in_bfloat16=in_bfloat16)
    assert [note.kind for note in notes] == ["bench_machine", *["bench_emulated"] * warned]


@pytest.mark.parametrize(
    ("flags", "native"),
    [("flags : fma avx512_bf16", True), ("Features : fp bf16", True), ("flags : avx2", False), ("", None)],
)
def test_native_bfloat16_is_read_from_the_processor(flags, native, monkeypatch, tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text(f"model name : x\n{flags}\n")
    monkeypatch.setattr(environment, "Path", lambda _: path)
    assert environment.describe_with_cpu_flags("cpu")["native_bfloat16"] is native


@pytest.mark.parametrize(
    ("n", "rank"), [(1, 1), (5, 1), (6, 1), (9, 2), (20, 6), (60, 22), (100, 40)]
)  # of the lower end, as in tables of the sign test
def test_interval_of_the_median(n, rank):
    found = Measurement.of("x", "s", range(n, 0, -1))
    assert (found.low, found.median, found.high) == (rank, (n + 1) / 2, n + 1 - rank)
