"""The config of a run: its fields, how settings become one, and its key. Torch-free."""

from harness.config.schema import CheckpointConfig as CheckpointConfig
from harness.config.schema import DivergenceConfig as DivergenceConfig
from harness.config.schema import EvaluationConfig as EvaluationConfig
from harness.config.schema import OptimizerConfig as OptimizerConfig
from harness.config.schema import RunConfig as RunConfig
from harness.config.schema import ScheduleConfig as ScheduleConfig
from harness.config.schema import SpectraConfig as SpectraConfig
from harness.config.schema import Value as Value
