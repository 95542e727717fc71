"""RD on a run: parameters that are replicated and differ between its ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opscope.analysis.check_run import RunCheck
from opscope.judge.conditions.ranks_differ import RanksDiffer
from opscope.judge.findings import Findings
from opscope.judge.hits import Hit

_ONE_RANK = "there is only one rank to look at"
_NOT_REPLICATED = "its parameters are not the same on every rank by design, as far as it says"


def check_ranks(
    ranks: Sequence[RunCheck], wants_step: Callable[[int], bool], findings: Findings
) -> list[Hit]:
    """Compare the parameters of all ranks, step by step."""
    checks = [c for c in ranks[0].evaluator.training.checks if isinstance(c, RanksDiffer)]
    hits: list[Hit] = []
    for check in checks:
        if len(ranks) == 1:
            findings.cannot(check.watchpoint, _ONE_RANK)
            continue
        common = set.intersection(*(set(rank.signatures) for rank in ranks))
        if not common:
            findings.cannot(check.watchpoint, _NOT_REPLICATED)
            continue
        findings.count(check.watchpoint, len(common))
        for step in sorted(common):
            if len({rank.signatures[step] for rank in ranks}) > 1:
                found = check.compare(step, [rank.digests_of(step) for rank in ranks])
                hits += [hit for hit in found if wants_step(hit.step)]
    return hits
