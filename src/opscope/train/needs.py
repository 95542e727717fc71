"""Packages that only some parts need: imported when used, or an error that says how to get them."""

from __future__ import annotations

import importlib
from typing import Any

from opscope.errors import OpscopeError

_EXTRAS = {"torchmetrics": "train", "torch.utils.tensorboard": "train", "tensorboard": "train"}
"""Packages that come with an extra of opscope; others have their own name."""


def need(module: str, what: str) -> Any:
    """A module of an optional package, for what is named in the error if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        extra = _EXTRAS.get(module) or _EXTRAS.get(module.partition(".")[0])
        package = module.partition(".")[0]
        install = f"'opscope[{extra}]'" if extra else package
        missing = "tensorboard" if "tensorboard" in module else package
        raise OpscopeError(
            f"{what} needs {missing}, which cannot be imported ({error}); "
            f"to install it: pip install {install}"
        ) from error
