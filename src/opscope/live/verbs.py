"""The questions and orders to a training; each verb takes and gives plain data."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope import arrays
from opscope.errors import OpscopeError
from opscope.events import IO
from opscope.live.controller import Controller
from opscope.live.kept import NAMED, NONE, ON_DISK, KeptValues, ValueKey
from opscope.live.parameters import ParameterCopies
from opscope.live.sink import LiveSink, place_of
from opscope.live.wire import MOST_BYTES

if TYPE_CHECKING:
    from opscope.judge.watch_set import WatchSet
    from opscope.watch.sink import WatchSink

Data = dict[str, Any]
_MOST_AT_ONCE = MOST_BYTES - (1 << 16)
"""Bytes of a value that fit into a message."""


class Verbs:
    """Answers the questions that come over the link."""

    def __init__(
        self,
        controller: Controller,
        sink: LiveSink,
        kept: KeptValues,
        parameters: ParameterCopies,
        watch: WatchSink,
        ranks: int = 1,
    ) -> None:
        self._controller = controller
        self._sink = sink
        self._kept = kept
        self._parameters = parameters
        self._watch = watch
        self._ranks = ranks
        self._verbs: dict[str, Callable[[Data], Any]] = {
            "status": lambda args: self.status(),
            "pause": self._pause,
            "continue": lambda args: self._controller.go_on(),
            "step": lambda args: self._controller.run_steps(_whole(args, "count", 1)),
            "until": lambda args: self._controller.run_until(_whole(args, "step")),
            "next": self._next,
            "to": self._to,
            "terminate": lambda args: self._controller.terminate(),
            "current": lambda args: self._current(),
            "keep": self._keep,
            "kept": lambda args: self._kept_values(),
            "value": self._value,
            "count": self._count,
            "changes": self._changes,
            "parameters": lambda args: self._controller.in_training(self._parameter_list),
            "watchpoints": lambda args: self._watchpoints(),
            "watch": self._set_watch,
            "presence": self._presence,
        }

    def answer(self, verb: str, args: Data) -> Any:
        """The answer to a question; an error says what is wrong with it."""
        if verb not in self._verbs:
            raise OpscopeError(f"{verb} is no verb; there are {', '.join(self._verbs)}")
        if verb != "presence":
            self._controller.sign()
        return self._verbs[verb](args)

    def status(self) -> Data:
        """Return where training stands, for whoever looks."""
        status = self._controller.status
        place = status.place
        return {
            "state": status.state,
            "reason": status.reason,
            "step": status.step,
            "node": None if place is None else place._asdict(),
            "hit": status.hit,
            "rank": self._sink.rank,
            "keep": self._kept.mode,
            "kept": list(self._kept.patterns),
            "dropped": self._kept.dropped,
        }

    # ------------------------------------------------------------------ going on

    def _pause(self, args: Data) -> None:
        self._controller.pause()

    def _next(self, args: Data) -> None:
        self._one_rank_only("one operator at a time")
        self._controller.next_node()

    def _to(self, args: Data) -> None:
        self._one_rank_only("to a node")
        name = str(args.get("node", ""))
        self._controller.run_to(self._find(name))

    def _one_rank_only(self, what: str) -> None:
        if self._ranks > 1:
            raise OpscopeError(
                f"stepping {what} is for one rank: with {self._ranks}, the others would wait in "
                "their next collective; step whole steps instead"
            )

    def _find(self, text: str) -> str:
        """The name of the node that a text means: a name, or a part of just one."""
        names = [node.name for node in self._sink.nodes]
        if text in names:
            return text
        found = sorted({name for name in names if text and text in name})
        if len(found) == 1:
            return found[0]
        if not found:
            raise OpscopeError(f'there is no node "{text}" so far')
        shown = ", ".join(found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise OpscopeError(f'"{text}" is part of {len(found)} names: {shown}{more}')

    # ------------------------------------------------------------------ values

    def _current(self) -> Data:
        """The node that training stands at, with what went in and came out."""
        status, call = self._controller.status, self._sink.current
        if status.place is None or call is None:
            where = f"{status.reason}" if status.reason else f"it is {status.state}"
            raise OpscopeError(f"training does not hold at a node: {where}, step {status.step}")
        node = call.node
        return {
            "step": call.step,
            "call": call.index,
            "node": node.id,
            "name": node.name,
            "op_type": node.op_type,
            "phase": str(node.phase),
            "where": place_of(node),
            "inputs": self._sides(call.step, node.id, IO.INPUT),
            "outputs": self._sides(call.step, node.id, IO.OUTPUT),
        }

    def _sides(self, step: int, node: int, io: IO) -> list[Data]:
        """Return what is kept of one side of a node."""
        keys = [key for key in self._kept.present() if key[:3] == (step, node, str(io))]
        found = ((key, self._kept.get(key)) for key in sorted(keys, key=lambda key: key.slot))
        return [
            {"slot": key.slot, "dtype": str(array.dtype), "shape": list(array.shape)}
            for key, array in found
            if array is not None
        ]

    def _keep(self, args: Data) -> Data:
        nodes = args.get("nodes", [])
        if not isinstance(nodes, list) or not all(isinstance(name, str) for name in nodes):
            raise OpscopeError("nodes must be a list of names or globs")
        budget = _whole(args, "budget", self._kept.budget)
        usual = NONE if self._kept.mode == NONE else NAMED
        self._kept.keep(nodes, str(args.get("mode", usual)))
        self._kept.budget = budget
        self._controller.in_training(self._controller.on_plan)
        return {"nodes": nodes, "mode": self._kept.mode, "budget": budget}

    def _kept_values(self) -> list[Data]:
        names = {node.id: node.name for node in self._sink.nodes}
        return [
            {
                "step": key.step,
                "node": key.subject if isinstance(key.subject, int) else None,
                "name": names.get(key.subject, "") if isinstance(key.subject, int) else key.subject,
                "io": key.io,
                "slot": key.slot,
            }
            for key in self._kept.present()
        ]

    def _value(self, args: Data) -> Data | bytes:
        """A part of a kept value or of a parameter, or of its difference to another step."""
        array, part = self._array(args), str(args.get("part", "facts"))
        if part == "npy":
            return _npy(arrays.taken(array, str(args.get("index", ""))))
        if args.get("against") is None:
            return arrays.look(array, part, args)
        before = self._array(args | {"step": _whole(args, "against"), "previous": True})
        if args.get("show") == "before":
            return arrays.look(before, part, args)
        return arrays.look(array, part, args, before)

    def _count(self, args: Data) -> list[Any]:
        """Return how many elements of each kept value of a step are in some ranges."""
        ranges = args.get("ranges", [])
        if not isinstance(ranges, list) or not all(_is_range(each) for each in ranges):
            raise OpscopeError("ranges must be pairs of numbers")
        ends = [(float(low), float(high)) for low, high in ranges]
        return self._kept.counts(_whole(args, "step"), ends)

    def _changes(self, args: Data) -> list[Any]:
        """Return how far each parameter that a step used has moved: name, tolerance, numbers."""
        asked = args.get("tolerances", [])
        if not isinstance(asked, list) or not all(_is_tolerance(each) for each in asked):
            raise OpscopeError("tolerances must be rtol, atol and whether NaN is equal to NaN")
        step = _whole(args, "step")
        tolerances = [(float(rtol), float(atol), equal) for rtol, atol, equal in asked]
        found = self._parameters.changes(step, tolerances)
        # What was compared as training used it counts more than what was kept at the ends of steps.
        found += self._controller.in_training(lambda: self._watch.changes(step))
        return [[name, list(tolerance), list(each)] for name, tolerance, each in found]

    def _array(self, args: Data) -> arrays.Array:
        is_previous = bool(args.get("previous"))
        if "parameter" in args:
            name = str(args["parameter"])
            look = self._parameters.previous if is_previous else self._parameters.current
            found: arrays.Array = self._controller.in_training(lambda: look(name))
            return found
        node = self._find(str(args.get("node", "")))
        number = next(n.id for n in self._sink.nodes if n.name == node)
        step = _whole(args, "step", self._controller.status.step - is_previous)
        key = ValueKey(step, number, str(args.get("io", IO.OUTPUT)), _whole(args, "slot", 0))
        array = self._kept.get(key)
        if array is None:
            raise OpscopeError(f"{key.io} {key.slot} of {node} in step {step}: {self._why(key)}")
        return array

    def _why(self, key: ValueKey) -> str:
        """Return why there is no such value."""
        if self._kept.mode == NONE:
            return "value not kept: nothing is, with --keep none"
        if self._kept.was_dropped(key):
            return (
                f"value not kept: dropped, as there was no room ({self._kept.budget} bytes of "
                f"memory and {ON_DISK} times as much on disk); name fewer nodes, or give "
                "--keep-budget"
            )
        return "value not kept; name its node (keep NODE) to have it from the next time on"

    def _parameter_list(self) -> list[Data]:
        snapshot = self._parameters.snapshot
        parameters = snapshot().parameters if snapshot is not None else {}
        return [
            {"name": name, "shape": list(tensor.shape), "dtype": str(tensor.dtype)}
            for name, tensor in parameters.items()
        ]

    # ------------------------------------------------------------------ watchpoints

    def _watchpoints(self) -> list[Data]:
        return [watchpoint.to_json() for watchpoint in self._watch.watch]

    def _set_watch(self, args: Data) -> list[Data]:
        """Add, change or remove watchpoints, or take another set of them."""
        found: list[Data] = self._controller.in_training(lambda: self._change_watch(args))
        return found

    def _change_watch(self, args: Data) -> list[Data]:
        from opscope.judge.watch_orders import change_set

        change_set(self._watch.watch, args)
        return self._watchpoints()

    def _presence(self, args: Data) -> None:
        self._controller.set_presence(True, _whole(args, "watchers", 0))


def _npy(array: arrays.Array) -> bytes:
    """A whole value as a file of NumPy's."""
    if array.nbytes > _MOST_AT_ONCE:
        raise OpscopeError(
            f"the value has {array.nbytes} bytes; {_MOST_AT_ONCE} are sent at once: ask for a slice"
        )
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _is_range(pair: Any) -> bool:
    """Two numbers; infinities are written as texts."""
    ends = pair if isinstance(pair, list) and len(pair) == 2 else [None]
    return all(isinstance(end, int | float) or end in ("Infinity", "-Infinity") for end in ends)


def _is_tolerance(given: Any) -> bool:
    if not isinstance(given, list) or len(given) != 3 or not isinstance(given[2], bool):
        return False
    return all(isinstance(each, int | float) and each >= 0 for each in given[:2])


def _watch_set(what: Any) -> WatchSet:
    """Watchpoints as a text says, or as JSON does."""
    from opscope.judge.watch_set import from_json, load

    return load(what) if isinstance(what, str) else from_json(what, "watchpoints")


def _whole(args: Data, name: str, usual: int | None = None) -> int:
    value = args.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int):
        raise OpscopeError(f"{name} must be a whole number")
    return value
