"""The recorder of a session: switched on and off by settings and by the script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.messages import say_once
from opscope.ranks import current_rank, world_size
from opscope.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    from opscope.events import Sink
    from opscope.record.recorder import Recorder


class OptionalRecorder:
    """Holds the recorder while there is one; otherwise nothing happens."""

    def __init__(
        self,
        settings: RecorderSettings,
        run_directory: Callable[[], Path],
        command: Sequence[str] = (),
    ) -> None:
        self._settings = settings
        self._run_directory = run_directory
        self._command = command
        self._recorder: Recorder | None = None

    @property
    def sinks(self) -> list[Sink]:
        """The sinks that the capture is to tell of nodes."""
        return [] if self._recorder is None else [self._recorder.sink]

    @property
    def link(self) -> int:
        """The address by which native capture tells the recorder; 0 for nobody."""
        return 0 if self._recorder is None else self._recorder.link

    def follow_capture(self, records: bool) -> None:
        """Leave the scopes of operators to the capture while that records them."""
        if self._recorder is not None:
            self._recorder.program.finds_scopes = not records

    def start(self) -> None:
        """Record what runs from here on, if settings say so; torch is loaded."""
        if not self._settings.enable:
            return
        from opscope.record.places import IN_RUN
        from opscope.record.recorder import Recorder

        path = self._settings.path
        base = Path(path) if path else self._run_directory() / IN_RUN
        recorder = Recorder(
            self._settings,
            base,
            rank=current_rank(),
            world_size=world_size(),
            command=self._command,
        )
        try:
            recorder.start()
        except Exception as error:  # noqa: BLE001 - told to the person; training must go on
            say_once(f"the recorder does not start: {type(error).__name__}: {error}")
            return
        self._recorder = recorder

    def apply(self, section: Mapping[str, Any]) -> None:
        """Switch the recorder on or off, as the file that the script has named says."""
        wanted = replace(self._settings, **section)
        if wanted == self._settings:
            return
        self._settings = wanted
        self.withdraw()
        self.start()

    def mark_step(self) -> None:
        """End the step here, as the script says."""
        if self._recorder is not None:
            self._recorder.mark_step()

    def note_exception(self, error: BaseException) -> None:
        """Note the exception that training ends with."""
        if self._recorder is not None:
            self._recorder.note_exception(error)

    def withdraw(self) -> None:
        """Record no more, and leave nothing."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.withdraw()

    def finish(self, hit: str, process_ends: bool) -> None:
        """Finish the recording: training is over, by a hit if one is named."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.finish(hit, process_ends)

    def abandon(self) -> None:
        """Leave the recorder to the parent, in a forked child."""
        self._recorder = None
