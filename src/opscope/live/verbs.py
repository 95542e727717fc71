"""What can be asked of a training; each verb takes and gives plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opscope import arrays
from opscope.errors import OpscopeError
from opscope.events import IO
from opscope.live.controller import PAUSED, WAITING, Controller
from opscope.live.kept import KeptValues, Key, as_array
from opscope.live.sink import LiveSink

if TYPE_CHECKING:
    from opscope.events import Snapshot
    from opscope.watch.sink import WatchSink

Data = dict[str, Any]


class Verbs:
    """Answers the questions that come over the link."""

    def __init__(
        self,
        controller: Controller,
        sink: LiveSink,
        kept: KeptValues,
        watch: WatchSink,
        snapshot: Callable[[], Snapshot],
        ranks: int = 1,
    ) -> None:
        self._controller = controller
        self._sink = sink
        self._kept = kept
        self._watch = watch
        self._snapshot = snapshot
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
            "keep": self._keep,
            "kept": lambda args: self._kept_values(),
            "value": self._value,
            "parameters": lambda args: self._controller.in_training(self._parameters),
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
        """Where training stands, for whoever looks."""
        status = self._controller.status
        place = status.place
        return {
            "state": status.state,
            "reason": status.reason,
            "step": status.step,
            "node": None if place is None else place._asdict(),
            "hit": status.hit,
            "rank": self._sink.rank,
            "kept": list(self._kept.patterns),
            "dropped": self._kept.dropped,
        }

    @property
    def is_held(self) -> bool:
        """Whether the training thread holds."""
        return self._controller.status.state in (PAUSED, WAITING)

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

    def _keep(self, args: Data) -> Data:
        nodes = args.get("nodes", [])
        if not isinstance(nodes, list) or not all(isinstance(name, str) for name in nodes):
            raise OpscopeError("nodes must be a list of names or globs")
        budget = _whole(args, "budget", self._kept.budget)
        self._kept.budget = budget
        self._kept.keep(nodes)
        self._controller.in_training(self._controller.on_plan)
        return {"nodes": nodes, "budget": budget}

    def _kept_values(self) -> list[Data]:
        names = {node.id: node.name for node in self._sink.nodes}
        return [{**key._asdict(), "name": names.get(key.node, "")} for key in self._kept.present()]

    def _value(self, args: Data) -> Data:
        """A part of a kept value or of a parameter: facts, a slice, a tile or a histogram."""
        array = arrays.real(self._array(args))
        part = str(args.get("part", "facts"))
        if part == "facts":
            dtype = str(array.dtype)
            return {"dtype": dtype, "shape": list(array.shape), "places": arrays.places(array)}
        if part == "slice":
            return arrays.slice_of(array, str(args.get("index", "")))
        if part == "histogram":
            return arrays.histogram(array, _whole(args, "bins", 60), bool(args.get("log")))
        if part == "tile":
            size = (_whole(args, "rows", 200), _whole(args, "columns", 200))
            return arrays.tile(array, str(args.get("index", "")), *size)
        raise OpscopeError(f"{part} is no part; there are facts, slice, tile and histogram")

    def _array(self, args: Data) -> arrays.Array:
        if "parameter" in args:
            name = str(args["parameter"])
            found: arrays.Array = self._controller.in_training(lambda: self._parameter(name))
            return found
        node = self._find(str(args.get("node", "")))
        number = next(n.id for n in self._sink.nodes if n.name == node)
        io = str(args.get("io", IO.OUTPUT))
        step = _whole(args, "step", self._controller.status.step)
        array = self._kept.get(Key(step, number, io, _whole(args, "slot", 0)))
        if array is None:
            raise OpscopeError(
                f"{io} {_whole(args, 'slot', 0)} of {node} in step {step} is not kept; "
                "name its node to keep it from the next time on"
            )
        return array

    def _parameters(self) -> list[Data]:
        parameters = self._snapshot().parameters
        return [
            {"name": name, "shape": list(tensor.shape), "dtype": str(tensor.dtype)}
            for name, tensor in parameters.items()
        ]

    def _parameter(self, name: str) -> arrays.Array:
        parameters = self._snapshot().parameters
        if name not in parameters:
            raise OpscopeError(f"there is no parameter {name}")
        return as_array(parameters[name])

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


def _whole(args: Data, name: str, usual: int | None = None) -> int:
    value = args.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int):
        raise OpscopeError(f"{name} must be a whole number")
    return value
