"""The config of a run: its fields, how settings become one, and its key. Torch-free."""

from harness.config.schema import (
    AverageConfig,
    CheckpointConfig,
    DivergenceConfig,
    EvaluationConfig,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
    SpectraConfig,
    Value,
    option,
)

__all__ = [
    "AverageConfig",
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
