"""Saves state on a hit: the batch, random states, parameters, optimizer, the origin's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opscope.atomic_files import write_whole
from opscope.events import Snapshot
from opscope.judge.origin.birth import Birth
from opscope.messages import say_once
from opscope.rundir import layout
from opscope.rundir.jsonlines import encode
from opscope.safetensors_file import can_save, save_tensors

DEFAULT_LIMIT = 1 << 30
_STATES = 3
"""So many hits of a run are saved."""


Values = Mapping[str, Any]


class HitState:
    """Saves the state of training beside the hits of a rank, within a limit of bytes."""

    def __init__(self, run: Path | None, limit: int = DEFAULT_LIMIT) -> None:
        self.rank = 0
        self.snapshot: Callable[[], Snapshot] = Snapshot
        """Takes the state as it is now."""
        self.values: Callable[[Birth], Values] = lambda birth: {}
        """The inputs and outputs of an operator, if they were kept."""
        self._run = run
        self._limit = limit
        self._saved = 0

    def save(self, step: int, origin: Birth, verdict: Mapping[str, Any]) -> str | None:
        """Save what there is; returns the directory's name in that of the rank."""
        if self._run is None or self._limit <= 0 or self._saved >= _STATES:
            return None
        self._saved += 1
        name = f"{layout.HIT_STATES}/step_{step}"
        directory = layout.rank_directory(self._run, self.rank) / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._write(directory, step, origin, verdict)
        except OSError as error:
            say_once(f"cannot save the state of the hit: {error.strerror or error}")
            return None
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            # Of some kinds of tensors torch does not even tell the size.
            say_once(f"cannot save the state of the hit: {type(error).__name__}: {error}")
            return None
        return name

    def _write(self, directory: Path, step: int, origin: Birth, verdict: Mapping[str, Any]) -> None:
        snapshot = self.snapshot()
        room, files, left_out = self._limit, {}, []
        parts: list[tuple[str, Values]] = [
            ("origin", self.values(origin)),
            ("rng", snapshot.rng),
            ("batch", snapshot.batch),
            ("parameters", snapshot.parameters),
            ("optimizer", snapshot.optimizer),
        ]
        for name, tensors in parts:
            fitting = {key: t for key, t in tensors.items() if can_save(t)}
            left_out += [
                f"{name}: {key} ({t.dtype})" for key, t in tensors.items() if key not in fitting
            ]
            size = sum(t.numel() * t.element_size() for t in fitting.values())
            if size > room:
                left_out.append(f"{name} ({size} bytes; {room} bytes are left of the limit)")
                continue
            if fitting:
                room -= size
                files[name] = sorted(fitting)
                save_tensors(directory / f"{name}.safetensors", fitting)
        about = {
            "step": step,
            "rank": self.rank,
            "node": origin.node.name,
            "where": verdict["where"],
            "files": files,
            "left_out": left_out,
            **snapshot.facts,
        }
        write_whole(directory / "state.json", encode(about, indent=1))
        if left_out:
            say_once(f"not saved with the hit: {'; '.join(left_out[:3])}")
