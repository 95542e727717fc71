"""Metrics: small classes with `clear`, `update` and `eval`, most of them on top of torchmetrics.

Each takes what a network puts out, as tensors, arrays or lists, and finds out itself how many
classes there are. torchmetrics is imported when a metric is first updated.
"""
