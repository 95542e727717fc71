"""Nodes, stacks, edges and steps as the JSON objects of a run directory."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from opscope.events import Node, Output, Outside, Source, Stack, StepRecord
from opscope.rundir.jsonlines import portable
from opscope.stats.devices import used_kind


def node_record(node: Node) -> dict[str, Any]:
    """One line of nodes.jsonl."""
    return {
        "id": node.id,
        "graph": node.graph,
        "name": node.name,
        "op_type": node.op_type,
        "op": node.op,
        "scope": node.scope,
        "module_class": node.module_class,
        "phase": str(node.phase),
        "stack": node.stack.id,
        "forward": node.forward.id if node.forward else None,
        "parameter": node.parameter,
        "gradient_of": node.gradient_of,
        "with_grad": node.with_grad,
        "arguments": node.arguments,
        "sources": [_source_record(source) for source in node.variants[0]],
        "outputs": _output_records(node),
    }


def edges_record(node: Node, first: int) -> dict[str, Any]:
    """One line of edges.jsonl: its outputs, and variants of its sources from `first` on."""
    variants = [[_source_record(source) for source in v] for v in node.variants[first:]]
    return {"node": node.id, "variants": variants, "outputs": _output_records(node)}


def further_records(further: Mapping[int, list[Source]]) -> list[dict[str, Any]]:
    """The sources of calls, for links.jsonl."""
    return [
        {"call": call, "sources": [_source_record(source) for source in sources]}
        for call, sources in further.items()
    ]


def stack_record(stack: Stack) -> dict[str, Any]:
    """One line of stacks.jsonl."""
    return {"id": stack.id, "frames": [list(frame) for frame in stack.frames]}


def step_record(record: StepRecord, orders: Sequence[Sequence[int]] | None) -> dict[str, Any]:
    """One line of steps.jsonl; for `orders` see `OrderBook`."""
    return {
        "step": record.step,
        "operators": len(record.calls),
        "passes": record.calls.pass_count,
        "orders": orders,
        "losses": [
            {
                "value": portable(loss.value),
                "node": loss.node.id if loss.node else None,
                "call": loss.call,
            }
            for loss in record.losses
        ],
        "seconds": record.seconds,
        "skipped": record.skipped,
        "complete": record.complete,
    }


def torch_version() -> str | None:
    """The version of the torch that is loaded, without loading it."""
    version = getattr(sys.modules.get("torch"), "__version__", None)
    return None if version is None else str(version)


def device_name() -> str:
    """The device that the script uses, as far as that is known by now."""
    torch = sys.modules.get("torch")
    used = used_kind(torch) if torch is not None else None
    return "CPU" if torch is None or used is None else used.name(torch) or used.target


def now() -> str:
    """This moment, in UTC, as text that sorts."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _output_records(node: Node) -> list[dict[str, Any]]:
    return [
        _output_record(output)
        for output in node.outputs
        if output.parameter or output.subject or output.uninitialised
    ]


def _output_record(output: Output) -> dict[str, Any]:
    data = {"slot": output.slot, "parameter": output.parameter, "subject": output.subject}
    return {**data, "uninitialised": True} if output.uninitialised else data


def _source_record(source: Source) -> dict[str, Any]:
    if isinstance(source, Outside):
        return {"kind": source.kind, "name": source.name, "subject": source.subject}
    return {"node": source.node.id, "slot": source.slot}
