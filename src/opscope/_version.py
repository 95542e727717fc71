"""The version of opscope."""

__version__ = "0.1.0"
