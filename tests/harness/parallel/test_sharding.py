"""The owner-stepped optimizer: the bits of a plain one, whoever steps what, with its state divided."""

import copy

import pytest
import torch
from torch import nn

from htbench import optimizers
from htbench.harness.bench import contract
from htbench.harness.parallel import sharding
from htbench.harness.parallel.sharding import Shards, deal_out
from htbench.optimizers.cost import seconds_of_a_step, separable
from tests.helpers.in_group import in_group

CLASSES = ("Adagrad", "Adafactor", "NAdam", "RMSprop")  # Adagrad makes its state in the constructor
# Those of each kind of state; that a rule of the zoo steps each parameter apart is in the contract of all.
NAMES = "adamw sgdm muon htmuon_ht_normuon soap sophia galore cosmos mars muown prodigy schedule_free".split()
VARIANTS = {
    **{name: (name, {}) for name in NAMES},
    **{name: (f"torch.optim:{name}", {}) for name in CLASSES},
    "htmuon-interval": ("htmuon", {"interval": 2}),
    "galore-gap": ("galore", {"update_gap": 2, "rank": 3}),
    "soap-often": ("soap", {"precondition_frequency": 2}),
    "sophia-often": ("sophia", {"curvature_interval": 2, "curvature_at_start": True}),
    "cosmos-narrow": ("cosmos", {"rank": 3}),
}
COUPLED = {"prodigy"}  # all parameters of a group have one rate, which all gradients decide


class Net(nn.Module):
    """Parameters of many shapes, one of which never gets a gradient."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 8)
        self.convolution = nn.Conv2d(3, 4, 3)
        self.layers = nn.Sequential(nn.Linear(8, 24), nn.LayerNorm(24), nn.Linear(24, 8), nn.Linear(8, 8))
        self.unused = nn.Linear(8, 5)
        self.head = nn.Linear(8, 40, bias=False)

    def get_output_embeddings(self):
        return self.head


class Coupled(torch.optim.SGD):
    """A user's class that clips by the norm of all gradients that it sees."""

    def step(self, closure=None):
        params = [p for group in self.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(params, 1e-3)
        return super().step(closure)


class Declared(Coupled):
    separable = True


def build(net, name, hyper):
    return optimizers.build(name, net, lr=0.01, **hyper)


def divide(optimizer, group):
    return Shards(optimizer, group, seconds_of_a_step if separable(optimizer) else None)


def give_gradients(net, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, p in net.named_parameters():
        scale = 10.0 ** (seed % 3 - 1)
        gradient = scale * torch.randn(p.shape, generator=generator)
        p.grad = None if "unused" in name else gradient.to(p.dtype)


def nets(dtype=torch.float32):
    torch.manual_seed(0)
    one, other = Net().to(dtype), Net().to(dtype)
    other.load_state_dict(one.state_dict())
    return one, other


def train(net, optimizer, steps, before=lambda: None, step=None):
    for number in steps:
        if getattr(optimizer, "wants_curvature", lambda step: False)(number):
            give_gradients(net, 100 + number)
            before()
            optimizer.observe_curvature(7)
        give_gradients(net, number)
        (step or optimizer.step)()
        optimizer.zero_grad()


def tensors(value):
    if isinstance(value, dict):
        return [tensor for one in value.values() for tensor in tensors(one)]
    return [value] if isinstance(value, torch.Tensor) else []


def state_bytes(state):
    return sum(tensor.nbytes for tensor in tensors(state))


def same(one, other):
    """Whether two nested values are equal, tensors bit for bit and in dtype."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return one == other


# --- in the processes ---


def against_plain(group, name, hyper):
    """What differs between an owner-stepped optimizer and a plain one, and the bytes of their states."""
    net, twin = nets()
    plain, optimizer = build(net, name, hyper), build(twin, name, hyper)
    shards = divide(optimizer, group)
    train(net, plain, range(4))
    train(twin, optimizer, range(4), shards.drop_gradients, shards.step)
    wrong = [] if same(net.state_dict(), twin.state_dict()) else ["weights"]
    ours, whole = state_bytes(dict(optimizer.state)), shards.state_dict()
    if group.is_main and not same(plain.state_dict(), whole):
        wrong.append("gathered state")

    loaded = divide(build(twin, name, hyper), group)
    loaded.load_state_dict(copy.deepcopy(plain.state_dict()))  # torch.optim would share its memory
    if state_bytes(dict(loaded.optimizer.state)) != ours and loaded.owners == shards.owners:
        wrong.append("loaded state")
    train(net, plain, range(4, 6))
    train(twin, loaded.optimizer, range(4, 6), loaded.drop_gradients, loaded.step)
    if not same(net.state_dict(), twin.state_dict()):
        wrong.append("weights after loading")
    return wrong, ours, state_bytes(dict(plain.state)), shards.owners


def all_against_plain(group):
    return {variant: against_plain(group, *made) for variant, made in VARIANTS.items()}


def alike(optimizer):
    """Equal costs: measured ones may give one process everything while the machine is busy."""
    return [1.0 for group in optimizer.param_groups for _ in group["params"]]


def coupled(group, *classes):
    """Of each class whether it is divided, and whether it gives the bits of a plain one."""
    found = []
    for cls in classes:
        net, twin = nets()
        optimizer = cls(twin.parameters(), lr=1.0)
        shards = Shards(optimizer, group, alike if separable(optimizer) else None)
        train(net, cls(net.parameters(), lr=1.0), range(2))
        train(twin, optimizer, range(2), step=shards.step)
        found.append((shards.owners is not None, same(net.state_dict(), twin.state_dict())))
    return found


def dealt(group, *ways):
    """Weights after some steps of htmuon in bfloat16, for each way to deal the parameters out."""
    found = []
    for owners in ways:
        sharding.deal_out = lambda costs, size, owners=owners: owners
        _, net = nets(torch.bfloat16)
        shards = divide(build(net, "htmuon", {}), group)
        assert shards.owners == owners
        train(net, shards.optimizer, range(4), step=shards.step)
        found.append(net.state_dict())
    return found


# --- what they find ---


@pytest.fixture(scope="module")
def found():
    """Of every variant what each of three processes found."""
    ranks = in_group(3, all_against_plain)
    return {variant: [rank[variant] for rank in ranks] for variant in VARIANTS}


@pytest.mark.parametrize("variant", VARIANTS)
def test_owner_stepped_is_plain_bit_for_bit(found, variant):
    wrong, ours, plain, owners = zip(*found[variant], strict=True)
    assert wrong == ([], [], [])
    if variant in COUPLED:
        return
    assert owners[0] == owners[1] == owners[2] and set(owners[0]) == {0, 1, 2}
    assert sum(ours) == plain[0]
    assert max(ours) < plain[0] or plain[0] == 0


def test_who_steps_what_changes_no_bit():
    count = len(list(Net().parameters()))
    first, *others = in_group(2, dealt, [number % 2 for number in range(count)], [1] * count, [0] * count)
    assert all(same(first[0], weights) for weights in [*first, *others[0]])


def test_a_class_that_may_couple_its_parameters_is_divided_only_if_it_says_so():
    # Declared lies, which shows that the comparison can tell.
    assert in_group(2, coupled, Coupled, Declared) == [[(False, True), (True, False)]] * 2


def test_zoo_check_sees_a_false_declaration():
    contract.parameters_are_stepped_apart_if_separable(lambda net: Coupled(net.parameters(), lr=1.0))
    with pytest.raises(AssertionError, match="takes another step if others have no gradient"):
        contract.parameters_are_stepped_apart_if_separable(lambda net: Declared(net.parameters(), lr=1.0))


def test_what_is_separable():
    net = Net()
    params = list(net.parameters())
    found = {name for name in optimizers.ZOO if not separable(build(net, name, {}))}
    assert found == COUPLED
    assert not separable(torch.optim.LBFGS(params))
    assert not separable(optimizers.Hybrid(torch.optim.SGD(params[:1]), Coupled(params[1:])))


# --- who steps what ---


def test_the_dearest_go_first_to_whoever_has_least():
    assert deal_out([1, 5, 1, 4, 1, 1], 2) == [1, 0, 0, 1, 1, 0]
    assert deal_out([9, 1, 1, 1], 3) == [0, 1, 2, 1]
    assert deal_out([], 2) == [] and deal_out([2, 1], 1) == [0, 0]


def test_measuring_changes_nothing_and_sees_that_a_decomposition_is_dear():
    torch.manual_seed(0)
    matrix, long = nn.Parameter(torch.randn(120, 120)), nn.Parameter(torch.randn(10, 3000))
    optimizer = optimizers.build(
        "htmuon", [("matrix", matrix), ("long", long)], routing=lambda name, p: name == "matrix"
    )
    before, random = matrix.detach().clone(), torch.get_rng_state()
    times = [seconds_of_a_step(optimizer) for _ in range(3)]
    svd, adamw = map(min, zip(*times, strict=True))  # a busy machine lengthens some of them
    assert svd > 3 * adamw, "although it has half as many entries"
    assert torch.equal(matrix, before) and matrix.grad is None and not optimizer.state
    assert torch.equal(torch.get_rng_state(), random)
