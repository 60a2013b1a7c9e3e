"""Augmentation: each kind against a plain computation, and that nothing but the sample decides its change."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import nn

from htbench.harness.config.schema import AUGMENTATIONS
from htbench.harness.data import augment, randaugment
from htbench.harness.data.augment import AUGMENTS, Recipe
from htbench.harness.data.images import ImageTask
from htbench.harness.parallel.group import Group
from htbench.harness.train import curvature

SIZE, BATCH = 16, 12
MEAN, DEVIATION = (0.5, 0.4, 0.3), (0.2, 0.3, 0.25)


def photographs(n=BATCH, side=SIZE, channels=3):
    """Smooth images with some noise, so that neighbours are alike."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(n, channels, 4, 4, generator=generator) * 255
    smooth = nn.functional.interpolate(coarse, size=side, mode="bilinear")
    return (smooth + 10 * torch.randn(smooth.shape, generator=generator)).clamp(0, 255).to(torch.uint8)


def image_task(name="none", mixup=0.0, side=SIZE, batch_size=BATCH):
    images = {split: photographs(30, side) for split in ("train", "val", "test")}
    labels = {split: torch.arange(30) % 5 for split in images}
    recipe = Recipe(SIZE, MEAN, DEVIATION, name, mixup)
    return ImageTask(images, labels, classes=5, batch_size=batch_size, data_seed=3, recipe=recipe)


def neutral(n=BATCH):
    """Draws that change nothing: the middle place, no flip, the whole area, square."""
    u = torch.zeros(n, augment.DRAWS, dtype=torch.float64)
    u[:, :2], u[:, 2], u[:, 3], u[:, 4] = 0.5, 0.9, 1.0, 0.5
    return u


def test_there_is_a_function_for_every_word_of_the_config():
    assert tuple(AUGMENTS) == AUGMENTATIONS


# --- one kind after the other ---


@pytest.mark.parametrize("name", ["none", "crop-flip", "resized-crop-flip"])
def test_neutral_draws_change_nothing(name):
    images = photographs()
    assert torch.equal(AUGMENTS[name](images, neutral(), SIZE), images)


@pytest.mark.parametrize("name", ["crop-flip", "resized-crop-flip"])
def test_a_flip_mirrors_and_two_flips_do_not(name):
    images, u = photographs(), neutral()
    u[:, 2] = 0.1
    once = AUGMENTS[name](images, u, SIZE)
    assert torch.equal(once, images.flip(3))
    assert torch.equal(AUGMENTS[name](once, u, SIZE), images)


def test_a_crop_is_a_slice_of_the_bordered_image():
    images, u = photographs(), augment.draws(BATCH, 0, 0)
    got = augment.crop_flip(images, u, SIZE)
    for image, draw, result in zip(images.numpy(), u, got.numpy(), strict=True):
        padded = np.pad(image, ((0, 0), (2, 2), (2, 2)))
        top, left = (int(draw[k] * 5) for k in (0, 1))
        window = padded[:, top : top + SIZE, left : left + SIZE]
        assert np.array_equal(result, window[:, :, ::-1] if draw[2] < 0.5 else window)


def test_a_larger_image_is_cropped_without_a_border():
    images = photographs(side=20)
    got = augment.crop_flip(images, neutral(), SIZE)
    assert torch.equal(got, images[..., 2:18, 2:18])
    assert torch.equal(AUGMENTS["none"](images, neutral(), SIZE), images[..., 2:18, 2:18])


def test_a_resized_crop_shows_a_window_of_the_image():
    """The window's place and size are read off two images that hold their pixels' own coordinates."""
    n, side = 2000, 256
    ramp = torch.arange(side, dtype=torch.uint8).expand(n, 1, side, side)
    u = augment.draws(n, 0, 0)
    x, y = (augment.resized_crop_flip(one, u, SIZE).double() for one in (ramp, ramp.transpose(2, 3)))
    width = (x[:, 0, 0, -1] - x[:, 0, 0, 0]).abs() / (SIZE - 1) * SIZE
    height = (y[:, 0, -1, 0] - y[:, 0, 0, 0]) / (SIZE - 1) * SIZE
    area, aspect = width * height / side**2, width / height
    assert 0.07 < area.min() and area.max() < 1.02 and area.mean() == pytest.approx(0.54, abs=0.02)
    assert 0.7 < aspect.min() and aspect.max() < 1.4
    assert (x[:, 0, 0, -1] < x[:, 0, 0, 0]).double().mean() == pytest.approx(0.5, abs=0.03)


# --- RandAugment, against Pillow ---


def applied(name, images, sign=1.0):
    return randaugment.OPERATIONS[name](images.clone(), torch.full((len(images),), sign))


def by_pillow(images, function):
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]
    return torch.stack([torch.from_numpy(np.array(function(one))).permute(2, 0, 1) for one in pictures])


@pytest.mark.parametrize(
    ("name", "function", "tolerance"),
    [
        ("identity", lambda one: one, 0),
        ("autocontrast", ImageOps.autocontrast, 1),
        ("equalize", ImageOps.equalize, 0),
        ("posterize", lambda one: ImageOps.posterize(one, 4), 0),
        ("solarize", lambda one: ImageOps.solarize(one, 128), 0),
        ("brightness", lambda one: ImageEnhance.Brightness(one).enhance(1.9), 1),
        ("contrast", lambda one: ImageEnhance.Contrast(one).enhance(1.9), 2),
        ("color", lambda one: ImageEnhance.Color(one).enhance(1.9), 2),
        ("sharpness", lambda one: ImageEnhance.Sharpness(one).enhance(1.9), 2),
    ],
)
def test_colour_operations_agree_with_pillow(name, function, tolerance):
    images = photographs(side=32)
    images[0] = 77  # nothing to stretch, nothing to equalise
    got, expected = applied(name, images), by_pillow(images, function)
    assert (got.int() - expected.int()).abs().max() <= tolerance


def test_a_rotation_agrees_with_pillow():
    images = photographs(side=32)
    expected = by_pillow(images, lambda one: one.rotate(30, fillcolor=(128, 128, 128)))
    assert (applied("rotate", images, 1.0) == expected).float().mean() > 0.97


def test_shears_keep_the_middle_and_translations_move_everything():
    images = photographs(side=SIZE)
    pixels = round(SIZE * 100 / 224)
    right = applied("translate-x", images, -1.0)
    assert torch.equal(right[..., pixels:], images[..., :-pixels])
    assert (right[..., : pixels - 1] == 128).all()
    down = applied("translate-y", images, -1.0)
    assert torch.equal(down[..., pixels:, :], images[..., :-pixels, :])
    for name, axis in (("shear-x", 3), ("shear-y", 2)):
        sheared = applied(name, images, 1.0)
        line = images.transpose(axis, 3)[..., SIZE // 2, :] if axis == 3 else images[..., :, SIZE // 2]
        middle = sheared.transpose(axis, 3)[..., SIZE // 2, :] if axis == 3 else sheared[..., :, SIZE // 2]
        assert torch.equal(middle, line)


def test_every_image_gets_two_operations_of_its_own():
    images = photographs(4000, 8)
    u = augment.draws(4000, 0, 0)[:, 6:]
    got = randaugment.randaugment(images, u)
    for number in range(20):
        one = images[number : number + 1]
        for layer in range(2):
            name = list(randaugment.OPERATIONS)[int(u[number, 2 * layer] * 14)]
            one = applied(name, one, -1.0 if u[number, 2 * layer + 1] < 0.5 else 1.0)
        assert torch.equal(got[number], one[0])
    chosen = torch.bincount((u[:, 0] * 14).long())
    assert len(chosen) == len(randaugment.OPERATIONS) == 14 and chosen.min() > 200


# --- mixup ---


def test_mixed_samples_are_those_of_the_batch_and_their_successors():
    plain, mixed = (image_task(mixup=mixup).batch(2) for mixup in (0.0, 0.2))
    ready, got = plain.to("cpu"), mixed.to("cpu")
    successors = torch.roll(ready.inputs, -1, 0), torch.roll(ready.targets, -1, 0)
    weights = got.mix.weights[:, None, None, None]
    torch.testing.assert_close(got.inputs, weights * ready.inputs + (1 - weights) * successors[0])
    assert torch.equal(got.targets, ready.targets) and torch.equal(got.mix.targets, successors[1])


def test_the_loss_of_mixed_samples_is_that_of_both_classes():
    task = image_task(mixup=0.2)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 5))
    batch = task.batch(0).to("cpu")
    logs = model(batch.inputs).log_softmax(dim=1)
    pick = [logs.gather(1, targets[:, None])[:, 0] for targets in (batch.targets, batch.mix.targets)]
    expected = -(batch.mix.weights * pick[0] + (1 - batch.mix.weights) * pick[1]).sum()
    torch.testing.assert_close(task.loss(model, batch), expected)
    assert batch.count == BATCH


def test_the_weights_have_the_beta_distribution():
    """Beta(a, a) has the mean 1/2 and the variance 1/(8a + 4)."""
    weights = augment.beta(augment.draws(20_000, 0, 0)[:, 5], 0.2).double()
    assert weights.mean() == pytest.approx(0.5, abs=0.01)
    assert weights.var() == pytest.approx(1 / 5.6, rel=0.02)
    assert 0 <= weights.min() and weights.max() <= 1


# --- what decides a sample's change ---

KINDS = [(name, mixup) for name in AUGMENTS for mixup in (0.0, 0.2)]


def ready(batches):
    """The inputs, targets and mixtures of consecutive parts, one after the other."""
    parts = [batch.to("cpu") for batch in batches]
    fields = [[part.inputs for part in parts], [part.targets for part in parts]]
    if parts[0].mix is not None:
        fields += [[part.mix.targets for part in parts], [part.mix.weights for part in parts]]
    return [torch.cat(field) for field in fields]


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(("name", "mixup"), KINDS)
@pytest.mark.parametrize("side", [SIZE, 20])
def test_micro_batches_processes_and_resumption_change_nothing(name, mixup, side):
    task = image_task(name, mixup, side)
    whole = ready([task.batch(5)])
    assert whole[0].shape == (BATCH, 3, SIZE, SIZE) and whole[0].dtype == torch.float32
    assert equal(whole, ready([image_task(name, mixup, side).batch(5)]))
    for micro in (1, 5, 8):
        assert equal(whole, ready(task.batch(5).split(micro)))
    for size in (2, 5):
        shares = [task.batch(5, Group(rank, size)) for rank in range(size)]
        assert {share.count for share in shares} == {BATCH}
        assert equal(whole, ready([part for share in shares for part in share.split(2)]))
        assert equal(whole, ready([task.batch(5).shard(Group(rank, size)) for rank in range(size)]))


def test_a_process_without_samples_has_an_empty_batch():
    task = image_task("crop-flip", 0.2, batch_size=2)
    shares = [task.batch(0, Group(rank, 3)) for rank in range(3)]
    assert [len(share.split(4)) for share in shares] == [1, 1, 0]
    assert equal(ready([task.batch(0)]), ready(shares[:2]))


@pytest.mark.parametrize("name", [name for name in AUGMENTS if name != "none"])
def test_another_step_or_seed_changes_the_samples_otherwise(name):
    images = photographs()
    results = [
        AUGMENTS[name](images, augment.draws(BATCH, *numbers), SIZE) for numbers in ((0, 0), (0, 1), (1, 0))
    ]
    for result in results:
        assert result.dtype == torch.uint8
    assert not torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


def test_the_draws_are_the_same_on_every_machine():
    """Philox words; these numbers may never change, or a resumed run goes on differently."""
    draws = augment.draws(4, 7, 11)
    assert draws[:2, :3].tolist() == GOLDEN
    assert augment.draws(4, 7, 11)[3].tolist() == augment.draws(8, 7, 11)[3].tolist()


GOLDEN = [
    [0.7480818659151667, 0.7486457824640402, 0.29206834504544155],
    [0.054497812208465946, 0.9958892553842255, 0.8053089548538402],
]


def test_held_out_images_are_standardised_centres():
    task = image_task("randaugment", 0.2, side=20)
    batch = task._held_out("val", torch.arange(4)).to("cpu")
    middle = task.images["val"][:4, :, 2:18, 2:18].double() / 255
    expected = (middle - torch.tensor(MEAN)[:, None, None]) / torch.tensor(DEVIATION)[:, None, None]
    torch.testing.assert_close(batch.inputs.double(), expected, atol=1e-5, rtol=1e-5)
    assert batch.mix is None
    assert task.model_options == {"classes": 5, "in_channels": 3, "image_size": SIZE}


# --- Sophia's second pass ---


@pytest.mark.parametrize("mixup", [0.0, 0.2])
def test_the_curvature_pass_sees_the_augmented_images(mixup):
    """Its targets are drawn from the model, so it needs no second class, and micro-batches change nothing."""
    task, seen = image_task("crop-flip", mixup), []
    for micro in (BATCH, 5):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 5))
        off = torch.autocast("cpu", torch.bfloat16, enabled=False)
        options = {"seed": 0, "step": 4, "micro_batch": micro, "device": torch.device("cpu"), "autocast": off}
        curvature.backward(task, model, task.batch(4), **options)
        seen.append([p.grad for p in model.parameters()])
    for first, second in zip(*seen, strict=True):
        torch.testing.assert_close(first, second)
        assert first.abs().max() > 0
