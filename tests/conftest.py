"""What has to be so before any test is collected."""

from __future__ import annotations

import importlib.util
import os
from unittest import mock

import torch

if importlib.util.find_spec("triton") and not torch.cuda.is_available():
    # Triton settles when it is loaded whether its own functions are interpreted, and torch loads it
    # when it likes to: the tests of kernels need it so.
    with mock.patch.dict(os.environ, TRITON_INTERPRET="1"):
        importlib.import_module("triton.language")
