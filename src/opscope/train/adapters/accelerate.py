"""A tracker for Accelerate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.train.needs import need
from opscope.train.watching import Watching

if TYPE_CHECKING:
    from opscope.judge.hits import Hit
    from opscope.session import Session

_Base: Any = need("accelerate.tracking", "this tracker").GeneralTracker


class OpscopeTracker(_Base):  # type: ignore[misc]
    """Watches from its making to `Accelerator.end_training`; options are those of `opscope.start`.

    >>> Accelerator(log_with=OpscopeTracker(watch="recommended"))  # doctest: +SKIP
    """

    name = "opscope"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._watching = Watching(options)
        self._watching.start()

    @property
    def tracker(self) -> Session | None:
        """The session, while it runs."""
        return self._watching.session

    @property
    def hits(self) -> list[Hit]:
        """The hits of watchpoints so far."""
        return self._watching.hits

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Keep the configuration beside what is recorded."""
        self._watching.log(values)

    def log(self, values: Mapping[str, Any], step: int | None = None, **more: Any) -> None:
        """Keep scalars beside what is recorded."""
        self._watching.log(values, step)

    def finish(self) -> None:
        """End watching."""
        self._watching.stop()
