"""Watchpoints: rules about values, checked while training runs and on what was recorded."""
