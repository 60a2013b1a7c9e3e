"""The config of a run: its fields, how settings become one, and its key. Torch-free."""

from htbench.harness.config.schema import CheckpointConfig as CheckpointConfig
from htbench.harness.config.schema import DivergenceConfig as DivergenceConfig
from htbench.harness.config.schema import EvaluationConfig as EvaluationConfig
from htbench.harness.config.schema import OptimizerConfig as OptimizerConfig
from htbench.harness.config.schema import RunConfig as RunConfig
from htbench.harness.config.schema import ScheduleConfig as ScheduleConfig
from htbench.harness.config.schema import SpectraConfig as SpectraConfig
from htbench.harness.config.schema import Value as Value
