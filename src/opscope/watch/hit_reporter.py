"""Reports hits: the verdict, one line each, the log, the person's functions; when to stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from opscope.events import IO
from opscope.judge.condition import TRAINING
from opscope.judge.hits import Hit
from opscope.judge.origin import verdict as verdicts
from opscope.judge.origin.birth import Birth
from opscope.messages import say, say_lines
from opscope.watch import callbacks
from opscope.watch.hit_log import HitLog
from opscope.watch.reaction import Reaction
from opscope.watch.saving import HitState

_VERDICTS = 3
"""So many verdicts are printed in full; later ones are a line each."""
_LINES_OF_KIND = 4
"""So many lines about hits of one watchpoint are printed; all are in the run directory."""

MakeStep = Callable[[bool], verdicts.Step]
"""Makes the facts of the step, with the rows of earlier ones if asked for."""


class HitReporter:
    """Tells of the hits of one rank."""

    def __init__(self, log: HitLog, reaction: Reaction, state: HitState | None) -> None:
        self.log = log
        self.reaction = reaction
        self.stopping: Hit | None = None
        """The hit that ends training, once there is one."""
        self.culprit: Callable[[Birth], str] = lambda birth: ""
        """Says which element of what an operator made is bad, if that is known."""
        self._state = state
        self._verdicts = 0
        self._lines: Counter[int] = Counter()
        """By watchpoint: how many of its hits there would have been lines about."""
        self._told: set[tuple[int, int]] = set()
        self._has_verdict = False

    def end_step(self) -> None:
        """Allow the next step a verdict of its own."""
        self._has_verdict = False

    def tell(
        self, hits: Sequence[Hit], make_step: MakeStep | None, counts: Callable[[Birth], bool]
    ) -> None:
        """Tell of hits; `counts` says which births may be the origin."""
        bad = [hit for hit in hits if hit.nonfinite]
        if bad and make_step is not None and not self._has_verdict:
            self._has_verdict = True
            told = self._with_verdict(bad[0], make_step, counts)
            hits = [told if hit is bad[0] else hit for hit in hits]
        for hit in hits:
            self.log.add(hit)
            self._say(hit)
            callbacks.tell(hit)
            if self.stopping is None and self.reaction.stops_at(hit.watchpoint.condition.abbr):
                self.stopping = hit

    def _with_verdict(self, hit: Hit, make_step: MakeStep, counts: Callable[[Birth], bool]) -> Hit:
        step = make_step(self._verdicts < _VERDICTS)
        suspect = hit.call if hit.node is not None else None
        origin = verdicts.find_origin(step, suspect, counts)
        if origin is None:
            return hit
        data = verdicts.verdict(step, origin)
        culprit = self.culprit(origin)
        data["culprit"] = f"where it came in, {culprit}" if culprit and data["came_in"] else culprit
        if self._state is not None:
            data["state"] = self._state.save(step.step, origin, data)
        self._verdicts += 1
        if data["entered"] and data["entered"]["kind"] == "rank":
            say(f"step {step.step}, rank {step.rank}: NaN or Inf came from another rank")
        elif self._verdicts <= _VERDICTS:
            say_lines(verdicts.text(data), indent=12)
        return replace(hit, verdict=data)

    def _say(self, hit: Hit) -> None:
        if hit.verdict is not None and self._verdicts <= _VERDICTS:
            return
        key = hit.watchpoint.id, hit.node.id if hit.node is not None else -1
        if key in self._told and hit.node is not None:
            return
        self._told.add(key)
        if hit.nonfinite and self._has_verdict and hit.verdict is None:
            return  # the verdict says more
        kind = hit.watchpoint.id
        self._lines[kind] += 1
        if self._lines[kind] == _LINES_OF_KIND + 1:
            say(f"more hits of {hit.watchpoint.label} are not printed; opscope hits shows all")
        if self._lines[kind] <= _LINES_OF_KIND:
            place = f" ({verdicts.shown_place(hit.where)})" if hit.where else ""
            about = f" {_named(hit)}:" if hit.watchpoint.condition.target != TRAINING else ""
            say(f"{hit.moment}: {hit.watchpoint.label}:{about} {hit.message}{place}")


def _named(hit: Hit) -> str:
    """Name what a hit is about: a parameter, if it is one, or a value of a node."""
    return hit.parameter if hit.io is IO.INPUT and hit.parameter else hit.about
