// Where things are on the timeline: rows for ranks and their threads, and time across.
import type { RankTimeline, Timeline, TimelineLane } from "../api/types";

export const AXIS = 22;
export const LANE = 24;
export const HEAD = 22;
const LEAST_NS = 1000;

export interface Row {
  y: number;
  rank: RankTimeline;
  /** None for the line above the threads of a rank. */
  lane: TimelineLane | null;
}

/** Time from left to right, in nanoseconds. */
export interface Span {
  start: number;
  end: number;
}

export function rowsOf(timeline: Timeline): Row[] {
  const rows: Row[] = [];
  let y = AXIS;
  for (const rank of timeline.ranks) {
    rows.push({ y, rank, lane: null });
    y += HEAD;
    for (const lane of rank.lanes) {
      rows.push({ y, rank, lane });
      y += LANE;
    }
  }
  return rows;
}

export function heightOf(rows: Row[]): number {
  const last = rows[rows.length - 1];
  return last ? last.y + (last.lane ? LANE : HEAD) + 4 : AXIS;
}

export const rowAt = (rows: Row[], y: number): Row | undefined =>
  rows.find((row) => y >= row.y && y < row.y + (row.lane ? LANE : HEAD));

/** When all had ended: what times are told from. */
export const endOf = (timeline: Timeline): number =>
  Math.max(0, ...timeline.ranks.map((rank) => rank.ended));

export const moved = (span: Span, by: number, whole: Span): Span => {
  const room = span.end - span.start;
  const start = Math.min(Math.max(span.start + by, whole.start), Math.max(whole.start, whole.end - room));
  return { start, end: start + room };
};

/** What an address may ask for, as far as there is something. */
export const within = (span: Span, whole: Span): Span =>
  zoomed({ start: Math.min(span.start, span.end), end: Math.max(span.start, span.end) }, 1, 0, whole);

/** Closer by a factor below one, around a share of the width. */
export function zoomed(span: Span, factor: number, share: number, whole: Span): Span {
  const room = Math.min(Math.max((span.end - span.start) * factor, LEAST_NS), whole.end - whole.start);
  const fixed = span.start + (span.end - span.start) * share;
  return moved({ start: fixed - room * share, end: fixed + room * (1 - share) }, 0, whole);
}

/** A time so that it can be seen with its neighbours. */
export function around(start: number, end: number, whole: Span): Span {
  const room = Math.max((end - start) * 3, LEAST_NS * 20);
  const middle = (start + end) / 2;
  return moved({ start: middle - room / 2, end: middle + room / 2 }, 0, whole);
}

/** The box of a row at a time, or near enough to be meant. */
export function boxAt(lane: TimelineLane, time: number, near: number): number {
  const { start, end } = lane.boxes;
  let [found, best] = [-1, near];
  for (let index = 0; index < start.length; index++) {
    const far = Math.max(start[index]! - time, time - end[index]!, 0);
    if (far === 0) found = index;
    else if (far < best && found < 0) [found, best] = [index, far];
  }
  return found;
}

/** Round numbers across the span, at least so many nanoseconds apart. */
export function marks(span: Span, zero: number, least: number): number[] {
  const unit = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((one) => one * unit).find((one) => one >= least) ?? least;
  const found: number[] = [];
  for (let at = Math.ceil((span.start - zero) / step) * step; at <= span.end - zero; at += step) {
    found.push(at + zero);
  }
  return found;
}

/** `1.25 ms`. */
export function duration(ns: number): string {
  const size = Math.abs(ns);
  const [by, unit] =
    size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${Number((ns / Number(by)).toPrecision(4))} ${unit}`.replace("-", "−");
}
