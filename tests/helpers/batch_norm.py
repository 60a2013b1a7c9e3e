"""What BatchNorm's statistics are to be, by hand and in float64."""

import torch


def statistics(model, batches):
    """Of each BatchNorm2d by its name: means and variances of its inputs, averaged over the batches."""
    norms = {name: m for name, m in model.named_modules() if isinstance(m, torch.nn.BatchNorm2d)}
    inputs = {name: [] for name in norms}
    for name, norm in norms.items():
        norm.register_forward_pre_hook(lambda _, x, name=name: inputs[name].append(x[0].detach().double()))
    model.train()
    with torch.no_grad():
        for batch in batches:
            model(batch)
    assert len(norms) > 2
    return {
        name: (
            torch.stack([one.mean((0, 2, 3)) for one in x]).mean(0).float(),
            torch.stack([one.var((0, 2, 3)) for one in x]).mean(0).float(),
        )
        for name, x in inputs.items()
    }
