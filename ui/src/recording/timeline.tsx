// The last operators on a timeline: ranks under each other, a row for each thread and stream.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { question } from "../api/client";
import type { EndedRank, RecordingFacts, Timeline, TimelineLane } from "../api/types";
import { Waiting } from "../parts/empty";
import { pointIn } from "../parts/screen";
import { useWidth } from "../parts/width";
import { useStore } from "../state/store";
import { shownTheme } from "../state/theme";
import { useLatest } from "../tensor/latest";
import { useWheel } from "../tensor/wheel";
import { named, useTexts } from "../texts";
import { chosen, goTo, hereNow, useRecordingPlace } from "./place";
import { causeName, useRecordingTexts, type RecordingTexts } from "./texts";
import { draw, type Picture } from "./timeline_drawing";
import {
  around,
  boxAt,
  duration,
  endOf,
  heightOf,
  moved,
  rowAt,
  rowsOf,
  within,
  zoomed,
  type Row,
  type Span,
} from "./timeline_layout";

const LABELS = 206;
const SETTLE_MS = 160;
const NEAR_PX = 4;
const SECOND_NS = 1e9;

export function TimelinePanel({ recording, rank }: { recording: RecordingFacts; rank: EndedRank }) {
  const r = useRecordingTexts();
  const place = useRecordingPlace();
  const [box, width] = useWidth();
  const room = Math.max(0, width - LABELS);
  const path = `/recordings/${encodeURIComponent(recording.id)}/timeline`;
  const asked = place.from !== null && place.to !== null ? { start: place.from, end: place.to } : null;
  const answer = useLatest<Timeline>(
    room > 50 ? question(path, { ...asWhole(asked), columns: Math.round(room) }) : null,
    recording.alive,
  );
  const timeline = answer.data;
  return (
    <section class="timeline" aria-label={r("timeline")}>
      <header>
        <h3>{r("timeline")}</h3>
        <Legend gpu={timeline?.ranks.some((each) => each.completed !== null) ?? false} />
        <span class="grow" />
        {timeline && <Jumps timeline={timeline} />}
      </header>
      <div class="timelinebox" ref={box}>
        {!timeline ? (
          <Waiting answer={answer} />
        ) : timeline.ranks.length === 0 ? (
          <p class="empty">{r("timeline_empty")}</p>
        ) : (
          <Rows timeline={timeline} asked={asked} recording={recording} rank={rank} width={room} />
        )}
      </div>
    </section>
  );
}

const asWhole = (span: Span | null): { start: number | null; end: number | null } => ({
  start: span && Math.max(0, Math.floor(span.start)),
  end: span && Math.ceil(span.end),
});

const show = (span: Span, replace = false): void => {
  const { start, end } = asWhole(span);
  goTo({ from: start, to: end }, replace);
};

function Legend({ gpu }: { gpu: boolean }) {
  const r = useRecordingTexts();
  useTexts();
  return (
    <span class="phasekeys" title={r("timeline_tip")}>
      {["forward", "backward", "optimizer"].map((phase) => (
        <span key={phase} class="inkkey">
          <i style={{ background: `var(--${phase})` }} />
          {named("phase", phase)}
        </span>
      ))}
      <span class="inkkey">
        <i class="flightkey" />
        {r("in_flight")}
      </span>
      {gpu && (
        <span class="inkkey">
          <i class="gpukey" />
          {r("gpu_known")}
        </span>
      )}
    </span>
  );
}

function Jumps({ timeline }: { timeline: Timeline }) {
  const r = useRecordingTexts();
  const { last } = timeline;
  const end = endOf(timeline);
  return (
    <>
      <button class="chip" onClick={() => goTo({ from: null, to: null })}>
        {r("last_steps")}
      </button>
      {end > SECOND_NS && (
        <button class="chip" onClick={() => show({ start: end - SECOND_NS, end: last })}>
          {r("last_second")}
        </button>
      )}
      <button class="chip" onClick={() => show({ start: 0, end: last })}>
        {r("everything")}
      </button>
    </>
  );
}

interface RowsProps {
  timeline: Timeline;
  asked: Span | null;
  recording: RecordingFacts;
  rank: EndedRank;
  width: number;
}

function Rows({ timeline, asked, recording, rank, width }: RowsProps) {
  const r = useRecordingTexts();
  const place = useRecordingPlace();
  const rows = rowsOf(timeline);
  const height = heightOf(rows);
  const whole = { start: timeline.first, end: timeline.last };
  const [span, setSpan] = useSpan(asked ? within(asked, whole) : { start: timeline.began, end: timeline.last });
  const canvas = useRef<HTMLCanvasElement>(null);
  const [over, setOver] = useState<{ x: number; y: number } | null>(null);
  const look = useStore(shownTheme);
  const selected = chosen(place) ?? { at: rank.place, sequence: rank.last_op?.sequence ?? null };
  const words: Picture["words"] = {
    flight: r("in_flight"),
    never: r("never_entered"),
    step: (step) => r("in_step", step),
  };
  useLayoutEffect(() => {
    const picture = { timeline, rows, span, width, height, words };
    if (canvas.current) draw(canvas.current, { ...picture, place: selected.at, sequence: selected.sequence });
  }, [timeline, span.start, span.end, width, height, look, r("in_flight"), selected.at, selected.sequence]);
  const timeAt = (x: number): number => span.start + (x / width) * (span.end - span.start);
  useWheel(canvas, (event, element) => {
    event.preventDefault();
    const share = pointIn(event, element).x / width;
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    setSpan(
      sideways
        ? moved(span, (event.deltaX / width) * (span.end - span.start), whole)
        : zoomed(span, Math.exp(event.deltaY / 300), share, whole),
    );
  });
  const found = over && boxUnder(rows, over.y, timeAt(over.x), (NEAR_PX / width) * (span.end - span.start));
  const choose = (x: number, y: number): void => {
    const hit = boxUnder(rows, y, timeAt(x), (NEAR_PX / width) * (span.end - span.start));
    if (!hit) return;
    const { boxes } = hit.lane;
    if (boxes.count[hit.index]! > 1) show(around(boxes.start[hit.index]!, boxes.end[hit.index]!, whole));
    else goTo({ op: `${hit.row.rank.place}:${boxes.sequence[hit.index]}`, at: hit.row.rank.place });
  };
  const onKey = (event: KeyboardEvent): void => {
    const factor = { "+": 0.6, "=": 0.6, "-": 1.6 }[event.key];
    if (factor) setSpan(zoomed(span, factor, 0.5, whole));
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      event.preventDefault();
      const next = neighbour(rows, selected, event.key === "ArrowRight" ? 1 : -1);
      if (next !== null) goTo({ op: `${selected.at}:${next}` });
    }
  };
  return (
    <div class="timelinerows" style={{ gridTemplateColumns: `${LABELS}px 1fr` }}>
      <div class="lanelabels" style={{ height: `${height}px` }}>
        {rows.map((row) => (
          <Label key={`${row.y}`} row={row} recording={recording} />
        ))}
      </div>
      <div class="timelinecanvas" tabIndex={0} onKeyDown={onKey} title="">
        <canvas
          ref={canvas}
          role="img"
          aria-label={r("timeline")}
          data-start={Math.round(span.start)}
          data-end={Math.round(span.end)}
          style={{ width: `${width}px`, height: `${height}px` }}
          onPointerDown={(event) => dragging(event, span, width, whole, setSpan, choose)}
          onPointerMove={(event) => setOver(pointIn(event, event.currentTarget))}
          onPointerLeave={() => setOver(null)}
          onDblClick={() => goTo({ from: null, to: null })}
        />
        {over && found && <Tip at={over} width={width} found={found} end={endOf(timeline)} />}
      </div>
      {timeline.ranks.map(
        (each) =>
          each.hidden > 0 && (
            <p key={each.place} class="faint hiddenlanes">
              {r("lanes_hidden", each.hidden)}
            </p>
          ),
      )}
    </div>
  );
}

/** The span that is shown: moved at once, and in the address when it rests. */
function useSpan(asked: Span): [Span, (next: Span) => void] {
  const [moving, setMoving] = useState<{ span: Span; from: number | null; to: number | null } | null>(null);
  useEffect(() => {
    if (!moving) return;
    const settle = (): void => {
      const { from, to } = hereNow();
      if (from === moving.from && to === moving.to) show(moving.span, true); // or it went elsewhere since
    };
    const timer = setTimeout(settle, SETTLE_MS);
    return () => clearTimeout(timer);
  }, [moving]);
  useEffect(() => setMoving(null), [asked.start, asked.end]);
  const move = (span: Span): void => {
    const { from, to } = hereNow();
    setMoving({ span, from, to });
  };
  return [moving?.span ?? asked, move];
}

/** Drag moves; what does not move is a click. */
function dragging(
  event: PointerEvent,
  span: Span,
  width: number,
  whole: Span,
  setSpan: (next: Span) => void,
  choose: (x: number, y: number) => void,
): void {
  if (event.button !== 0) return;
  const canvas = event.currentTarget as Element;
  const { x, y } = pointIn(event, canvas);
  let far = false;
  const move = (next: PointerEvent): void => {
    const by = x - pointIn(next, canvas).x;
    far ||= Math.abs(by) > NEAR_PX;
    if (far) setSpan(moved(span, (by / width) * (span.end - span.start), whole));
  };
  const end = (): void => {
    document.removeEventListener("pointermove", move);
    if (!far) choose(x, y);
  };
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerup", end, { once: true });
}

interface Found {
  row: Row;
  lane: TimelineLane;
  index: number;
}

function boxUnder(rows: Row[], y: number, time: number, near: number): Found | null {
  const row = rowAt(rows, y);
  if (!row?.lane) return null;
  const index = boxAt(row.lane, time, near);
  return index < 0 ? null : { row, lane: row.lane, index };
}

/** The operator beside the chosen one in its row, of those that are drawn by themselves. */
function neighbour(rows: Row[], selected: { at: number; sequence: number | null }, by: number): number | null {
  for (const row of rows) {
    if (!row.lane || row.rank.place !== selected.at) continue;
    const { sequence } = row.lane.boxes;
    const at = sequence.indexOf(selected.sequence ?? -1);
    if (at >= 0) return sequence[at + by] ?? null;
  }
  return null;
}

function Label({ row, recording }: { row: Row; recording: RecordingFacts }) {
  const r = useRecordingTexts();
  const t = useTexts();
  const style = { top: `${row.y}px` };
  if (row.lane) {
    const words = laneName(r, row.lane);
    return (
      <span class="lanelabel" style={style} title={`${words}: ${r("several", row.lane.operators)}`}>
        {words}
      </span>
    );
  }
  const ended = recording.ranks[row.rank.place];
  return (
    <button
      class="link ranklabel"
      style={style}
      title={ended?.cause_text}
      onClick={() => goTo({ at: row.rank.place, op: "" })}
    >
      {t("rank")} {row.rank.rank}{" "}
      {ended && recording.ranks.length > 1 && <span class="faint">{causeName(r, ended.cause)}</span>}
    </button>
  );
}

function laneName(r: RecordingTexts, lane: TimelineLane): string {
  if (lane.kind === "main") return r("lane_main");
  if (lane.kind === "stream") return r("lane_stream", lane.device, lane.stream);
  if (lane.kind === "group") return r("lane_group", lane.group || r("default_group"));
  return r("lane_thread", lane.thread);
}

interface TipProps {
  at: { x: number; y: number };
  width: number;
  found: Found;
  end: number;
}

function Tip({ at, width, found, end }: TipProps) {
  const r = useRecordingTexts();
  const { boxes } = found.lane;
  const index = found.index;
  const many = boxes.count[index]! > 1;
  const took = duration(many ? boxes.busy[index]! : boxes.end[index]! - boxes.start[index]!);
  const side = at.x > width / 2 ? { right: `${width - at.x + 12}px` } : { left: `${at.x + 12}px` };
  return (
    <div class="tensortip" style={{ ...side, top: `${at.y + 14}px` }}>
      <b>{many ? r("several", boxes.count[index]!) : boxes.names[boxes.name[index]!]}</b>{" "}
      <span class="num">{boxes.state[index] === "flight" ? r("in_flight") : took}</span>
      <div class="faint">
        {named("phase", boxes.phase[index]!)} · {r("before_end", duration(Math.max(0, end - boxes.start[index]!)))}
      </div>
      {many && <div class="faint">{r("zoom_in")}</div>}
    </div>
  );
}
