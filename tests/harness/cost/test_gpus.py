"""The table of processors, and those of a user's file."""

import pytest

from harness.cost.gpus import FILE, PROCESSORS, find, known, named, recognised
from harness.errors import UsageError


def test_rows_are_plausible_and_say_where_they_come_from():
    for name, row in PROCESSORS.items():
        assert name == row.name and row.source and row.bandwidth > 0 and row.link > 0
        assert row.float64 <= row.float32 <= row.tf32 <= row.bfloat16 or row.cpu
        assert bool(row.memory) != row.cpu


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA L40", "l40"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("NVIDIA A40", "a40"),
        ("Tesla T4", "t4"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA B200", "b200"),
    ],
)
def test_the_driver_s_names_are_recognised(device, name):
    assert recognised(device).name == name


@pytest.mark.parametrize(
    "device",
    [
        "AMD Instinct MI300X",
        "NVIDIA RTX A4000",
        "NVIDIA RTX A400",
        "NVIDIA T400 4GB",
        "NVIDIA GH200 144G HBM3e",
        "NVIDIA GB200",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA A40-8Q",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 3090 Ti",
        "Tesla V100-SXM2-16GB",
    ],
)
def test_an_unknown_device_and_a_slice_of_one_are_not_guessed(device):
    assert recognised(device) is None


def test_rates_by_precision():
    a6000, v100 = PROCESSORS["a6000"], PROCESSORS["v100"]
    assert (a6000.rate("bfloat16"), a6000.rate("tf32"), a6000.rate("float32")) == (154.8e12, 77.4e12, 38.7e12)
    assert v100.rate("float16") == 125e12 and v100.rate("bfloat16") == v100.rate("float32")
    assert v100.rate("int8") == v100.rate("float32")


def test_a_store_and_a_file_may_add_processors(tmp_path):
    (tmp_path / FILE).write_text("ours: {memory: 64, bandwidth: 3277, float32: 81.7, bfloat16: 653.7}\n")
    mine = tmp_path / "mine.yaml"
    mine.write_text("slow-a100: {like: a100-80gb, bfloat16: 200, device: A100-SLOW}\n")
    table = known(tmp_path, mine)
    assert (table["ours"].float16, table["ours"].tf32, table["ours"].link) == (653.7, 81.7, 32)
    slow = table["slow-a100"]
    assert (slow.bfloat16, slow.bandwidth, slow.source) == (200, 2039, str(mine))
    assert recognised("NVIDIA A100-SLOW", table) is slow
    assert [one.name for one in named("ours,a6000,ours", table)] == ["ours", "a6000"] and named(
        None, table
    ) == []


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("{like: a600}", "Unknown GPU 'a600'; did you mean"),
        ("{memry: 3}", "Unknown key 'memry' of 'x' in .*; did you mean 'memory'?"),
        ("{memory: 24, bandwidth: 900}", "lacks float32"),
        ("{like: a6000, memory: many}", "'memory' of 'x' in .* must be a number above 0, not 'many'"),
        ("{like: a6000, memory: -1}", "a number above 0"),
        ("{like: a6000, device: 3}", "must be a word"),
        ("7", "must be a mapping"),
    ],
)
def test_mistakes_are_told_in_a_sentence(tmp_path, entry, sentence):
    file = tmp_path / "gpus.yaml"
    file.write_text(f"x: {entry}\n")
    with pytest.raises(UsageError, match=sentence):
        known(file=file)


def test_a_file_that_is_named_must_exist(tmp_path):
    assert known(tmp_path) == PROCESSORS
    with pytest.raises(UsageError, match="There is no file"):
        known(file=tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="Unknown GPU 'h10'"):
        find("h10", PROCESSORS)
