"""A session: settings turned into sinks and a capture, from start to stop."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.closing_lines import say_next_of_dump, say_next_of_run, summaries, why_nothing
from opscope.errors import OpscopeError
from opscope.logs import get_logger
from opscope.messages import say, say_once
from opscope.ranks import (
    RUN_ID_VARIABLE,
    current_rank,
    environment_rank,
    launched,
    run_id,
    world_size,
)
from opscope.recording import OptionalRecorder
from opscope.settings.context import current_context, on_context
from opscope.settings.handover import HANDOVER_VARIABLE, Handover, hand_over, handed_over
from opscope.settings.run import RunSettings

if TYPE_CHECKING:
    from opscope.capture.frameworks import Framework
    from opscope.capture.protocol import Capture
    from opscope.dump.sinks.dump_sink import DumpSink
    from opscope.dump.sinks.graph_sink import GraphSink
    from opscope.events import Sink
    from opscope.live.control import Live
    from opscope.pipeline import Pipeline
    from opscope.rundir.ending import Ending
    from opscope.rundir.writer import RunWriter
    from opscope.stats.engine import Engine
    from opscope.watch.saving import HitState
    from opscope.watch.sink import WatchSink


class Session:
    """Watches this process from `start` to `stop`; also a context manager."""

    def __init__(
        self, settings: RunSettings, script: str = "", command: Sequence[str] = ()
    ) -> None:
        self.settings = settings
        self.run_id = run_id(os.environ)
        self.run_directory: Path | None = None
        self._script = script
        self._command = list(command)
        self._capture: Capture | None = None
        self._sinks: list[Sink] = []
        self._recording = OptionalRecorder(settings.recorder, self._own_directory, self._command)
        self._is_started = False
        self._graphs: GraphSink | None = None
        self.watch: WatchSink | None = None
        """The sink that checks watchpoints, if any are set."""
        self._hit_state: HitState | None = None
        self._live: Live | None = None
        self.serves = False
        """True to start a server with a page, unless settings say otherwise."""
        self.page = ""
        """host:port of the server that was started."""
        self._failure: Ending | None = None
        self._writer: RunWriter | None = None
        self._pid = os.getpid()
        self._handover = Handover()

    def __repr__(self) -> str:
        state = "running" if self.running else "stopped"
        path = self.run_directory
        if path is not None and not self.running and not path.exists():
            return f"<opscope session, {state}, nothing was recorded>"
        return f"<opscope session, {state}, run {path or 'without files'}>"

    @property
    def stopped_by_hit(self) -> bool:
        """True if a hit has ended training."""
        return self.watch is not None and self.watch.ended

    @property
    def has_hits(self) -> bool:
        """True if any rank of this run has had a hit, be it in another process."""
        if self.run_directory is None:
            return False
        from opscope.rundir.layout import HITS, rank_directories

        ranks = rank_directories(self.run_directory).values()
        return any((directory / HITS).exists() for directory in ranks)

    def start(self) -> Session:
        """Check what can be checked, then begin to capture."""
        for notice in self.settings.notices:
            say_once(notice)
        if not self.settings.active:
            return self
        from opscope.capture.frameworks import installed
        from opscope.capture.on_import import when_imported

        frameworks = installed()
        if self.settings.has_run_directory:
            self._own_directory()
        self._sinks = self._make_sinks()
        self._is_started = True
        get_logger("session").info("watching begins; run %s", self.run_directory or "without files")
        self._hand_over()
        atexit.register(self._stop_at_exit)
        for framework in frameworks:
            when_imported(framework.module, partial(self._begin_capture, framework))
        return self

    def _begin_capture(self, framework: Framework) -> None:
        self._recording.start()  # first, so that the capture can add to it
        if self._sinks:
            self._sinks += self._recording.sinks
            self._start_capture(framework)
        on_context(self._context_changed)
        framework.follow_children(self, rank_process)

    def _start_capture(self, framework: Framework) -> None:
        from opscope.pipeline import Pipeline

        pipeline = Pipeline(self._sinks, self._engine(), self._accepts_step, self.settings.scope)
        if self._graphs is not None:
            self._graphs.renew = pipeline.forget_plans
        keep_classes = current_context().reserve_class_name_in_scope
        self._capture = framework.capture(pipeline, current_rank, keep_classes)
        self._connect(self._capture, pipeline)
        self._capture.link_recorder(self._recording.link, self._recording.follow_capture)
        self._capture.start()

    def _connect(self, capture: Capture, pipeline: Pipeline) -> None:
        """Let the watchpoints end training, and see what they need of it."""
        pipeline.strict = self.settings.strict
        pipeline.on_drop = self._note_drop
        if self.watch is not None:
            capture.safe_points.add(self.watch.safe_point)
            self.watch.ranks.is_replicated = capture.is_replicated
            self.watch.on_change = capture.reconsider
            self.watch.renew_plans = pipeline.forget_plans
            capture.bad_outputs.add(self.watch.witness.see)
            self.watch.witness.on_suspect = capture.hold_batch
            self.watch.bad_gradients = capture.bad_gradients
            if self._hit_state is not None:
                self._hit_state.snapshot = capture.keep_state()
                self._hit_state.values = self.watch.witness.values
            if self._live is not None:
                self._connect_live(self._live, capture, self.watch)

    def _connect_live(self, live: Live, capture: Capture, watch: WatchSink) -> None:
        """Let people control training, from the first call of a network on."""
        watch.hold = live.hold_at_hit
        watch.is_attended = lambda: live.is_attended
        live.controller.guard = capture.not_part_of_training
        snapshot = self._hit_state.snapshot if self._hit_state else capture.keep_state()

        def begin() -> None:
            capture.networks.remove(begin)
            live.connect(watch, snapshot, capture.reconsider, current_rank(), world_size())
            live.wait_at_start()

        capture.networks.add(begin)
        capture.safe_points.add(live.safe_point)

    def _note_drop(self, sink: Sink, error: Exception) -> None:
        """Note in the run that it was not watched to its end, lest it seem free of hits."""
        from opscope.rundir.ending import in_words

        if sink is self.watch and self._writer is not None:
            self._writer.note(f"nothing is watched any more, {in_words(error)}")

    def _context_changed(self) -> None:
        """Follow a call of `set_context` by the script."""
        if self.running:
            self._recording.apply(current_context().recorder)
        if self.capture is not None:
            self.capture.name_classes(current_context().reserve_class_name_in_scope)
            self.capture.reconsider()

    def marks_changed(self) -> None:
        """Follow a call of `set_dump` by the script."""
        dump = self.settings.dump
        if dump is not None and dump.dump_mode != 2:
            say_once(f"set_dump has no effect with dump_mode {dump.dump_mode}; it needs 2")
        if self.capture is not None:
            self.capture.reconsider()

    def _engine(self) -> Engine:
        """Statistics as the dump's settings ask for them, which only GPU tensors can differ in."""
        from opscope.stats.engine import Engine

        dump = self.settings.dump
        if dump is None:
            return Engine()
        on_device = dump.stat_calc_mode != "host"
        return Engine(on_device, dump.device_stat_precision_mode)

    def stop(self, process_ends: bool = False) -> None:
        """End the capture, finish the files, and say what to look at next."""
        if not self._is_started or os.getpid() != self._pid:
            return
        self._is_started = False
        sinks, self._sinks = self._sinks, []
        capture, self._capture = self._capture, None
        atexit.unregister(self._stop_at_exit)
        if capture is not None:
            capture.stop(failed=self._failure is not None and self._failure.reason != "")
        get_logger("session").info("watching ends")
        self._handover.end()
        if sinks:
            self._say_next(capture, sinks)
        self._recording.finish(self._hit_in_a_word, process_ends)
        if self._live is not None:
            self._live.end()  # last: a server on another machine copies what was written

    @property
    def _hit_in_a_word(self) -> str:
        """The finding that ended training, if a hit did."""
        if not self.stopped_by_hit or self.watch is None:
            return ""
        hit = self.watch.stopping
        return hit.in_a_word if hit is not None else "of another rank"

    def _stop_at_exit(self) -> None:
        """Python ends; what it has printed as uncaught has ended training, but at a prompt."""
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException) and not hasattr(sys, "ps1"):
            self.note_failure(error)
        step, writes = self._step, self.running
        self.stop(process_ends=True)
        if writes and self._writer is not None and not hasattr(sys, "ps1"):
            self._writer.await_exit_code(step)

    @property
    def _step(self) -> int | None:
        """The step that is under way."""
        return self.capture.step if self.capture else None

    def note_failure(self, error: BaseException) -> None:
        """Note the exception that training ends with, which goes its way; the first counts."""
        from opscope.rundir.ending import failure

        if self._failure is None and self.running:
            self._failure = failure(error, self._step)
            self._recording.note_exception(error)

    def _ending(self) -> Ending:
        """Tell what became of training."""
        from opscope.rundir.ending import STOPPED, Ending

        if self._live is not None and self._live.terminated:
            return Ending(STOPPED, "ended by a person", step=self._live.controller.status.step)
        if not self.stopped_by_hit or self.watch is None:
            return self._failure or Ending()
        hit = self.watch.stopping
        if hit is None:
            return Ending(STOPPED, "hit of another rank", step=self.watch.step)
        return Ending(STOPPED, hit.in_a_word, hit.message, hit.step)

    def step_aside(self) -> None:
        """Leave the files of the run to its ranks, other processes that are about to start."""
        capture = self.capture
        if self.running:
            self._recording.withdraw()
        if capture is not None and capture.opened:
            self._is_started = False
            say("this script starts ranks of its own: its own operators are not recorded from here")
            self._capture, self._sinks = None, []
            atexit.unregister(self._stop_at_exit)
            capture.stop()

    @property
    def running(self) -> bool:
        """True if this session has been started in this process and not been stopped."""
        return self._is_started and os.getpid() == self._pid

    @property
    def capture(self) -> Capture | None:
        """The capture, while it runs in this process."""
        return self._capture if os.getpid() == self._pid else None

    def mark_step(self) -> None:
        """`opscope.step()`: the script says that a step ends here."""
        if self.capture is not None:
            self.capture.mark_step()
        if self.running:
            self._recording.mark_step()

    def note_child(self) -> None:
        """Note that a child process starts that may join the run."""
        if self.capture is not None:
            self.capture.has_children = True

    def abandon(self) -> None:
        """Leave the run to the parent, in a forked child."""
        capture, self._capture, self._sinks = self._capture, None, []
        self._is_started = False
        self._recording.abandon()
        if capture is not None:
            capture.abandon()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self.note_failure(error)
        self.stop()

    def _accepts_step(self, step: int) -> bool:
        return step % self.settings.every == 0 and step in self.settings.steps

    def _make_sinks(self) -> list[Sink]:
        sinks: list[Sink] = []
        settings, dump = self.settings, None
        if settings.dump is None and not settings.writes_run and not settings.saves_graphs:
            return sinks
        if settings.dump is not None:
            from opscope.dump.sinks.debug_sink import dump_sink
            from opscope.dump.transport.ownership import check_path_free

            check_path_free(settings.dump, environment_rank(os.environ), self.run_id)
            dump = dump_sink(settings.dump, self.run_id, settings.include)
            sinks.append(dump)
        if settings.writes_run:
            from opscope.rundir.extra_writer import extra_sinks
            from opscope.rundir.writer import RunWriter

            assert self.run_directory is not None
            self._writer = RunWriter(
                self.run_directory,
                script=self._script,
                command=self._command,
                budget=settings.rows_bytes,
                run_id=self.run_id,
                ending=self._ending,
                world_size=world_size(),
            )
            sinks.append(self._writer)
            sinks += extra_sinks(self.run_directory, settings.extra_stats, settings.extra_bytes)
        self._graphs = self._graph_sink(dump)
        sinks.append(self._graphs)
        live = settings.writes_run and (bool(settings.server) or self._starts_page())
        if (settings.watches and settings.writes_run) or live:
            sinks.append(self._make_watch())
        if live and self.run_directory is not None:
            self._live = self._make_live(self.run_directory)
            sinks.append(self._live.sink)
        return sinks

    def _make_watch(self) -> WatchSink:
        from opscope.judge.watch_set import load, quick
        from opscope.watch.ending import when_ended_at_prompt
        from opscope.watch.fact_log import FactLog
        from opscope.watch.hit_log import HitLog
        from opscope.watch.note_log import NoteLog
        from opscope.watch.reaction import Reaction, kinds_of
        from opscope.watch.saving import HitState
        from opscope.watch.sink import WatchSink

        when_ended_at_prompt(self.stop)
        settings = self.settings
        watch = load(settings.watch)
        if settings.quick:
            watch = quick(watch)
        if settings.save_state:
            self._hit_state = HitState(self.run_directory, settings.save_state)
        self.watch = WatchSink(
            watch,
            Reaction(settings.on_hit, kinds_of(settings.on_hit_kinds)),
            HitLog(self.run_directory),
            include=settings.include,
            state=self._hit_state,
            facts=FactLog(self.run_directory),
            notes=NoteLog(self.run_directory),
        )
        return self.watch

    def _starts_page(self) -> bool:
        """Tell whether there is a page beside this run; the first rank of a machine starts it."""
        if not (self.serves and self.settings.page and self.run_directory is not None):
            return False
        from opscope.live.helper import missing_packages, start_helper

        if missing_packages():
            return False
        if os.environ.get("LOCAL_RANK", "0") in ("", "0"):
            self.page = start_helper(self.run_directory)
        return True

    def _make_live(self, directory: Path) -> Live:
        from opscope.live.control import Live, LiveSettings

        return Live(LiveSettings.of(self.settings), self.run_id, directory, self._script)

    def _graph_sink(self, dump: DumpSink | None) -> GraphSink:
        """Writes the graphs of a dump, or without one if the script or the environment asks."""
        from opscope.dump.sinks.graph_sink import GraphSink

        def takes(step: int) -> bool:
            if dump is not None:
                return dump.wants_step(step)
            return self.settings.saves_graphs or current_context().save_graphs > 0

        def root(rank: int) -> Path | None:
            if dump is not None:
                return dump.root
            return (self.run_directory or Path.cwd()) / f"rank_{rank}"

        sink = GraphSink(takes, root, self.settings.include, alone=dump is None)
        if dump is not None:
            sink.on_failure = dump.fail
        return sink

    def _own_directory(self) -> Path:
        if self.run_directory is None:
            from opscope.rundir.claim import choose_run_directory

            settings = self.settings
            self.run_directory = choose_run_directory(
                settings.run_dir,
                self._script,
                self.run_id,
                keep=settings.keep_runs,
                shared=launched(os.environ),
            )
        return self.run_directory

    def _hand_over(self) -> None:
        """Let child processes that become ranks join this very run."""
        settings = replace(self.settings, run_dir=self.run_directory, keep_runs=0, notices=())
        self._handover.begin({HANDOVER_VARIABLE: hand_over(settings), RUN_ID_VARIABLE: self.run_id})

    def _say_next(self, capture: Capture | None, sinks: Sequence[Sink]) -> None:
        if capture is None or not (capture.opened or capture.has_children):
            say(f"{why_nothing(self.settings, capture)}: nothing was recorded")
            return
        for line in summaries(sinks):
            say(line)
        if self.run_directory is None:
            say_next_of_dump(self.settings.dump)
        else:
            is_whole = self._writer is None or not self._writer.failed
            say_next_of_run(self.run_directory, is_whole, self.has_hits)


_current: Session | None = None


def begin(make: Callable[[], Session]) -> Session:
    """Start the one session of this process, in place of one that ended."""
    global _current
    if _current is not None and _current.running:
        raise OpscopeError("a session is running already: call opscope.stop() first")
    _current = make()
    return _current.start()


def current_session() -> Session | None:
    """The session of this process, if one was started."""
    return _current


class RankProcess:
    """A child process that may become a rank of this run; pickled by the name of its only one."""

    def __reduce__(self) -> str:
        return "rank_process"

    def join(self) -> None:
        """Capture this process as a rank of the run, unless it is captured already."""
        settings = None if _is_captured() else handed_over(os.environ)
        if settings is not None and settings.active:
            begin(lambda: Session(settings, sys.argv[0], sys.argv))

    def is_left_out(self) -> bool:
        """Tell whether this process belongs to a run and is not captured."""
        return HANDOVER_VARIABLE in os.environ and not _is_captured()

    def note_failure(self, error: BaseException) -> None:
        """Note the exception that this process ends with."""
        session = current_session()
        if session is not None:
            session.note_failure(error)


rank_process = RankProcess()


def _is_captured() -> bool:
    session = current_session()
    return session is not None and session.running
