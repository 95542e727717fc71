"""Digests of a value's bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from opscope.dump.format.npy import Array

SHA1, MD5 = "sha1", "md5"
ALGORITHMS = {"md5": MD5, "hash:md5": MD5, "hash": SHA1, "hash:sha1": SHA1}
"""The digest that each statistic category asks for."""

_NEW: dict[str, Callable[..., Any]] = {SHA1: hashlib.sha1, MD5: hashlib.md5}


def digest(algorithm: str, data: Array) -> str:
    """The digest of an array's bytes in logical order, as hexadecimal digits."""
    hasher = _NEW[algorithm](usedforsecurity=False)
    hasher.update(np.ascontiguousarray(data).reshape(-1).view(np.uint8))
    return str(hasher.hexdigest())
