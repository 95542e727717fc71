"""Typed settings from JSON, TOML, environment variables, flags and `set_context`.

Everything may import this folder. It imports nothing but the standard library and what stands
below it (errors, messages, names, regular files), so a mistake in a config is reported before any
framework is loaded; `opscope.configuration` adds the checks that need more. Every loader collects
all problems and raises them together as one `ConfigError`.
"""

from opscope.settings.context import Context, current_context, set_context
from opscope.settings.dump import DumpSettings, load_dump_settings
from opscope.settings.environment import VARIABLES, Environment, read_environment
from opscope.settings.handover import HANDOVER_VARIABLE, hand_over, handed_over
from opscope.settings.iterations import Iterations
from opscope.settings.kernels import KernelPattern
from opscope.settings.run import RunSettings, load_run_settings

__all__ = [
    "HANDOVER_VARIABLE",
    "VARIABLES",
    "Context",
    "DumpSettings",
    "Environment",
    "Iterations",
    "KernelPattern",
    "RunSettings",
    "current_context",
    "hand_over",
    "handed_over",
    "load_dump_settings",
    "load_run_settings",
    "read_environment",
    "set_context",
]
