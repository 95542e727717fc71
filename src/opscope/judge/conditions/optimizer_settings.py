"""OS: settings with which an optimizer cannot do what it is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opscope.calls import Calls
from opscope.events import GroupFact, Node, Phase
from opscope.judge.condition import TRAINING, Condition, Parameter
from opscope.judge.hits import Hit
from opscope.judge.loss_series import ERRORS
from opscope.judge.outcome import Params
from opscope.judge.selection import base_type
from opscope.judge.training_check import SeenStep, TrainingCheck

Settings = Mapping[str, float]
_ADAM = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax")
_BY_SIZE = (*_ADAM, "RMSprop")
"""Those whose update is about the learning rate, however large a gradient is."""
_DECAY_IN_GRADIENT = ("Adam", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad", "Adadelta")
_LARGEST_RATE, _LARGEST_DECAY = 1.0, 1.0
_REMEMBERING = (*_BY_SIZE, "Adadelta")
_MADE_ANEW = 10
"""In so many steps in a row an optimizer had nothing of the step before."""


def wrong_settings(optimizer: str, settings: Settings, params: Params) -> Iterator[str]:
    """Say which settings of an optimizer no training can want, and what is expected."""
    yield from _wrong_memory(optimizer, settings)
    yield from _wrong_betas(optimizer, settings)
    yield from _wrong_rate(optimizer, settings)
    yield from _wrong_decay(optimizer, settings, params)


def _wrong_memory(optimizer: str, settings: Settings) -> Iterator[str]:
    momentum, alpha = settings.get("momentum", 0.0), settings.get("alpha", 0.0)
    if momentum >= 1:
        yield (
            f"momentum={momentum:g}: no gradient is ever forgotten, so that updates swing and grow "
            "without end; expected is less than 1, mostly 0.9"
        )
    elif momentum > 0 and settings.get("dampening", 0.0) >= 1:
        yield (
            f"dampening={settings['dampening']:g}: with momentum, no gradient but the first is "
            "used; expected is less than 1, mostly 0"
        )
    if optimizer == "RMSprop" and alpha >= 1:
        yield (
            f"alpha={alpha:g}: the average of squares stays 0, so that updates are divided by eps "
            "alone; expected is less than 1, mostly 0.99"
        )


def _wrong_betas(optimizer: str, settings: Settings) -> Iterator[str]:
    if optimizer not in _ADAM or "betas.1" not in settings:
        return
    first, second = settings["betas.0"], settings["betas.1"]
    shown = f"betas=({first:g}, {second:g})"
    if max(first, second) >= 1:
        yield f"{shown}: an average with 1 never changes; expected is less than 1, as (0.9, 0.999)"
    elif first * first >= second**0.5 and first > 0:
        yield (
            f"{shown}: gradients are averaged for longer than their squares, with which Adam need "
            "not converge; expected is a second one near 1, as (0.9, 0.999); are they swapped?"
        )


def _wrong_rate(optimizer: str, settings: Settings) -> Iterator[str]:
    rate, climbs = settings.get("lr", 0.0), bool(settings.get("maximize"))
    if rate < 0 and not climbs:
        yield (
            f"lr={rate:g}: below 0 the loss is climbed; expected is a schedule that ends at 0, "
            "as max(0, 1 - step / steps)"
        )
    if optimizer in _BY_SIZE and rate >= _LARGEST_RATE:
        yield (
            f"lr={rate:g}: {optimizer} moves every element by about that in each step, whatever "
            "its gradient is; expected is 1e-4 to 1e-2"
        )


def _wrong_decay(optimizer: str, settings: Settings, params: Params) -> Iterator[str]:
    decay, rate = settings.get("weight_decay", 0.0), settings.get("lr", 0.0)
    in_gradient = optimizer in _DECAY_IN_GRADIENT and not settings.get("decoupled_weight_decay")
    if in_gradient and decay >= _LARGEST_DECAY:
        yield (
            f"weight_decay={decay:g}: it is added to the gradient, of which nothing is left beside "
            "it; expected is 1e-5 to 1e-2"
        )
    elif not in_gradient and rate * decay > params["decay_gt"]:
        yield (
            f"lr={rate:g} and weight_decay={decay:g}: each step takes away "
            f"{100 * rate * decay:.3g} % of every weight, more than training can give back; "
            "expected is far below 1 %, as with 1e-4 to 0.1"
        )


def remembers(optimizer: str, settings: Settings) -> bool:
    """Return whether an optimizer keeps something of each step for the next."""
    return optimizer in _REMEMBERING or (optimizer == "SGD" and settings.get("momentum", 0.0) > 0)


class OptimizerSettings(TrainingCheck):
    """Looks at the settings of torch's optimizers as they step."""

    needs_facts = True

    def start(self) -> None:
        """Begin without having seen a step."""
        self._anew = 0
        self._last = -1

    def check(self, step: SeenStep) -> Iterator[Hit]:
        """Find settings that are wrong whatever the task is."""
        groups = self.training.groups.get(step.step, ())
        self.training.checked(self.watchpoint, len(groups))
        self._count_anew(step, groups)
        for group in groups:
            settings = dict(group.settings)
            wrong = [*wrong_settings(group.optimizer, settings, self.watchpoint.params)]
            if settings.get("maximize") and group.alone and _is_of_errors(step):
                wrong.append(
                    "maximize=True: a loss that measures errors is climbed; expected is "
                    "maximize=False, unless what is trained is to be wrong"
                )
            if self._anew >= _MADE_ANEW and remembers(group.optimizer, settings):
                wrong.append(
                    f"state=nothing, as it had in each of the last {self._anew} steps: it is made "
                    "anew, and forgets its averages; expected is one that is made once, before the "
                    "loop"
                )
            for message in wrong:
                yield from self._tell(step, group, message)

    def _count_anew(self, step: SeenStep, groups: Sequence[GroupFact]) -> None:
        """Count the steps in a row whose only optimizer should keep something, and does not."""
        anew = bool(groups) and all(
            group.fresh and group.alone and remembers(group.optimizer, dict(group.settings))
            for group in groups
        )
        follows = step.step == self._last + 1 and not step.skipped
        self._anew = (self._anew if follows else 0) + 1 if anew and not step.skipped else 0
        self._last = step.step

    def _tell(self, step: SeenStep, group: GroupFact, message: str) -> Iterator[Hit]:
        key = f"{group.optimizer} {message.partition('=')[0]} {group.parameters}"
        node = _updating(step.calls, group.parameters)
        if key in self.told or (node is not None and self.is_left_alone(node)):
            return
        self.told.add(key)
        shown = ", ".join(group.parameters)
        more = ", …" if group.total > len(group.parameters) else ""
        yield self.hit_at(step, f"{group.optimizer} of {shown}{more} has {message}", node)


def _is_of_errors(step: SeenStep) -> bool:
    """Tell whether all losses are what functions make that measure errors."""
    nodes = [loss.node for loss in step.losses]
    return bool(nodes) and all(node is not None and base_type(node) in ERRORS for node in nodes)


def _updating(calls: Calls, names: Sequence[str]) -> Node | None:
    """The first operator of the update of these parameters, or of any."""
    every = [node for node in calls.nodes if node.phase is Phase.OPTIMIZER]
    own = (node for node in every if any(out.subject in names for out in node.outputs))
    return next(own, every[0] if every else None)


OPTIMIZER_SETTINGS = Condition(
    "OS",
    "optimizer_settings",
    TRAINING,
    "settings with which an optimizer cannot do what it is for",
    parameters=(Parameter("decay_gt", 0, default=0.1),),
    training=OptimizerSettings,
)
