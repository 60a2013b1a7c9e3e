"""A real step of a run: its tensor bytes by torch's profiler, its operations by torch's FLOP counter."""

from contextlib import contextmanager

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.flop_counter import FlopCounterMode

from htbench.harness.config.settings import resolve_config
from htbench.harness.cost import shapes
from htbench.harness.cost.update import fake_task
from htbench.harness.cost.watch import LACKING
from htbench.harness.data.task import Batch
from htbench.harness.parallel.group import ALONE
from htbench.harness.train.building import build_model, build_optimizer


def config_of(task, model, optimizer="adamw", **settings):
    chosen = {"task": task, "model": model, "optimizer.name": optimizer, "steps": 5, "batch_size": 4}
    return resolve_config(chosen | settings)


class Step:
    """Steps of a run on random data, made as a run makes them."""

    def __init__(self, config):
        self.config, found = config, shapes.of(config)
        self.task = fake_task(found)
        self.model = build_model(config, self.task, torch.device("cpu"), ALONE)
        self.optimizer = build_optimizer(config, self.model)
        self.batch = self._batch(found)

    def _batch(self, found):
        sizes, samples = found.options, self.config.batch_size
        if found.kind == shapes.LM:
            rows = torch.randint(sizes["vocabulary"], (2, samples, sizes["max_length"]))
            return Batch(rows[0].clone(), rows[1].clone(), rows[0].numel())
        side = sizes["image_size"]
        images = torch.randn(samples, sizes["in_channels"], side, side)
        return Batch(images, torch.randint(sizes["classes"], (samples,)), samples)

    def gradients(self):
        autocast = torch.autocast("cpu", torch.bfloat16, enabled=self.config.precision.autocast != "none")
        for micro in self.batch.split(self.config.micro_batch or self.config.batch_size):
            with autocast:
                loss = self.task.loss(self.model, micro)
            torch.autograd.backward(loss / self.batch.count)
            del loss

    def make(self):
        self.gradients()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def operations(work):
    """Floating point operations of all products and decompositions in `work`."""
    with FlopCounterMode(display=False, custom_mapping=LACKING) as counter:
        work()
    return counter.get_total_flops()


class Memory:
    """Most tensor bytes alive while something is done; tensors from before count if they were made inside."""

    @contextmanager
    def watched(self):
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
            yield
        events = profiler.profiler.kineto_results.events()
        self._spans = {event.name(): (event.start_ns(), event.end_ns()) for event in events}
        changes = ((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
        self._changes = sorted(changes)

    def during(self, name):
        """Of what was done inside `torch.profiler.record_function(name)`."""
        began, ended = self._spans[name]
        live = most = 0
        for when, change in self._changes:
            live += change
            if began <= when <= ended:
                most = max(most, live)
        return most


def peaks(config, *, steps):
    """Most tensor bytes alive in each of the steps."""
    memory = Memory()
    with memory.watched():
        step = Step(config)
        for number in range(steps):
            with record_function(f"step {number}"):
                step.make()
    return [memory.during(f"step {number}") for number in range(steps)]
