"""RD: a replicated parameter that is not the same on every rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opscope.judge.condition import TRAINING, Condition
from opscope.judge.hits import Hit
from opscope.judge.training_check import SeenStep, TrainingCheck


class RanksDiffer(TrainingCheck):
    """Is asked when the ranks have compared their parameters."""

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Nothing can be said of one rank alone."""
        yield from ()

    def compare(self, step: int, digests: Sequence[Mapping[str, str]]) -> Iterator[Hit]:
        """Find parameters that differ; `digests` has those of each rank."""
        common = set.intersection(*(set(of_rank) for of_rank in digests))
        names = [
            name
            for name in self.training.table.parameters
            if name in common and len({of_rank[name] for of_rank in digests}) > 1
        ]
        message = (
            "replicated, but not the same on every rank: {}; was a step run on model.module "
            "instead of the DDP model, or a gradient changed on one rank only?"
        )
        yield from self.about(SeenStep(step), names, message)


RANKS_DIFFER = Condition(
    "RD",
    "ranks_differ",
    TRAINING,
    "a replicated parameter differs between ranks",
    training=RanksDiffer,
)
