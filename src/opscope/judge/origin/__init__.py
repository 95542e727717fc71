"""Finds where NaN and Inf began in a step: soundness of values, walking back, the verdict."""
