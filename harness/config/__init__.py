"""The config of a run: its fields, how settings become one, and its key. Torch-free."""

from harness.config.fields import option
from harness.config.groups import (
    CheckpointConfig,
    DivergenceConfig,
    EvaluationConfig,
    OptimizerConfig,
    ScheduleConfig,
    SpectraConfig,
    Value,
)
from harness.config.schema import RunConfig

__all__ = [
    "CheckpointConfig",
    "DivergenceConfig",
    "EvaluationConfig",
    "OptimizerConfig",
    "RunConfig",
    "ScheduleConfig",
    "SpectraConfig",
    "Value",
    "option",
]
