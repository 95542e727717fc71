// Draws operators as boxes in the rows of their threads.
import type { RankTimeline, Timeline, TimelineLane } from "../api/types";
import { sharpness } from "../parts/screen";
import { colour } from "../state/theme";
import { hatch } from "../views/colours";
import { AXIS, duration, endOf, HEAD, LANE, marks, type Row, type Span } from "./timeline_layout";

const FONT = "11px system-ui, sans-serif";
const MONO = "11px ui-monospace, Menlo, Consolas, monospace";
const LETTER = 6.7;
const PAD = 3;
const TICK_PX = 110;
const PHASES = ["forward", "backward", "optimizer"];

export interface Picture {
  timeline: Timeline;
  rows: Row[];
  span: Span;
  width: number;
  height: number;
  /** The chosen operator. */
  place: number | null;
  sequence: number | null;
  words: { flight: string; never: string; step: (step: number) => string };
}

interface Inks {
  ink: string;
  soft: string;
  faint: string;
  grid: string;
  panel: string;
  second: string;
  phases: Record<string, string>;
  flight: CanvasPattern | string;
}

export function draw(canvas: HTMLCanvasElement, picture: Picture): void {
  const { width, height } = picture;
  const ratio = sharpness(canvas);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  context.clearRect(0, 0, width, height);
  context.textBaseline = "middle";
  const inks = inksOf(context);
  drawAxis(context, picture, inks);
  for (const row of picture.rows) {
    if (row.lane) drawLane(context, picture, inks, row, row.lane);
    else drawHead(context, picture, inks, row);
  }
  for (const row of picture.rows) if (!row.lane) drawRank(context, picture, inks, row.rank);
}

function inksOf(context: CanvasRenderingContext2D): Inks {
  const second = colour("second");
  return {
    ink: colour("ink"),
    soft: colour("soft"),
    faint: colour("faint"),
    grid: colour("grid"),
    panel: colour("panel"),
    second,
    phases: Object.fromEntries([...PHASES, "other"].map((name) => [name, colour(name)])),
    flight: hatch(context, second, colour("panel")),
  };
}

const across = (picture: Picture, time: number): number =>
  ((time - picture.span.start) / (picture.span.end - picture.span.start)) * picture.width;

function drawAxis(context: CanvasRenderingContext2D, picture: Picture, inks: Inks): void {
  const { span, width, height, timeline } = picture;
  const end = endOf(timeline);
  context.font = FONT;
  for (const at of marks(span, end, ((span.end - span.start) / width) * TICK_PX)) {
    const x = across(picture, at);
    context.fillStyle = inks.grid;
    context.fillRect(x, AXIS - 4, 1, height);
    context.fillStyle = inks.soft;
    const text = Math.abs(at - end) < 1 ? "0" : duration(at - end);
    context.textAlign = x > width - 30 ? "right" : x < 30 ? "left" : "center";
    context.fillText(text, x, AXIS / 2);
  }
}

/** Above the threads of a rank: its steps. */
function drawHead(context: CanvasRenderingContext2D, picture: Picture, inks: Inks, row: Row): void {
  context.fillStyle = inks.grid;
  context.fillRect(0, row.y, picture.width, 1);
  context.font = FONT;
  context.textAlign = "left";
  let free = 0;
  for (const mark of row.rank.steps) {
    const x = across(picture, mark.at);
    if (x < free || x > picture.width) continue;
    context.fillStyle = inks.faint;
    context.fillRect(x, row.y + 3, 1, HEAD - 4);
    const text = picture.words.step(mark.step);
    context.fillStyle = inks.soft;
    context.fillText(text, x + 4, row.y + HEAD / 2 + 1);
    free = x + 10 + context.measureText(text).width;
  }
}

function drawLane(
  context: CanvasRenderingContext2D,
  picture: Picture,
  inks: Inks,
  row: Row,
  lane: TimelineLane,
): void {
  const { boxes } = lane;
  const [y, height] = [row.y + PAD, LANE - 2 * PAD];
  context.font = MONO;
  context.textAlign = "left";
  boxes.start.forEach((start, index) => {
    const [left, right] = [across(picture, start), across(picture, boxes.end[index]!)];
    if (right < 0 || left > picture.width) return;
    const x = Math.max(left, -2);
    const room = Math.max(1, Math.min(right, picture.width + 2) - x);
    const state = boxes.state[index]!;
    const share = boxes.busy[index]! / Math.max(1, boxes.end[index]! - start);
    context.globalAlpha = boxes.count[index]! > 1 ? 0.35 + 0.65 * Math.min(1, share) : 1;
    context.fillStyle = inks.phases[boxes.phase[index]!] ?? inks.phases.other!;
    if (state === "flight") context.fillStyle = inks.flight;
    if (state === "raised") context.fillStyle = inks.second;
    context.fillRect(x, y, room > 4 ? room - 1 : room, height);
    context.globalAlpha = 1;
    if (state !== "finished") outline(context, inks.second, x, y, Math.max(3, room - 1), height, 1.5);
    const name = boxes.names[boxes.name[index]!];
    if (name) label(context, state === "flight" ? `${name} · ${picture.words.flight}` : name, x, y, room, {
      ink: state === "flight" ? inks.ink : inks.panel,
      ground: state === "flight" ? inks.panel : "",
    });
    if (row.rank.place === picture.place && boxes.sequence[index] === picture.sequence)
      outline(context, inks.ink, x - 1, y - 2, Math.max(4, room + 1), height + 4, 2);
  });
}

function label(
  context: CanvasRenderingContext2D,
  name: string,
  x: number,
  y: number,
  room: number,
  inks: { ink: string; ground: string },
): void {
  const most = Math.floor((room - 8) / LETTER);
  if (most < 3) return;
  const text = name.length > most ? `${name.slice(0, most - 1)}…` : name;
  const left = Math.max(x, 0) + 4;
  if (inks.ground) {
    context.fillStyle = inks.ground;
    context.fillRect(left - 2, y + 2, context.measureText(text).width + 4, LANE - 2 * PAD - 4);
  }
  context.fillStyle = inks.ink;
  context.fillText(text, left, y + (LANE - 2 * PAD) / 2 + 0.5);
}

function outline(
  context: CanvasRenderingContext2D,
  ink: string,
  x: number,
  y: number,
  width: number,
  height: number,
  thick: number,
): void {
  context.strokeStyle = ink;
  context.lineWidth = thick;
  context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
}

/** Over the threads of a rank: where it ended, how far its GPU got, what it never entered. */
function drawRank(
  context: CanvasRenderingContext2D,
  picture: Picture,
  inks: Inks,
  rank: RankTimeline,
): void {
  const rows = picture.rows.filter((row) => row.rank === rank);
  const [top, last] = [rows[0]!.y, rows[rows.length - 1]!];
  const bottom = last.y + (last.lane ? LANE : HEAD);
  upright(context, inks.second, across(picture, rank.ended), top + 2, bottom, []);
  if (rank.completed !== null)
    upright(context, inks.phases.optimizer!, across(picture, rank.completed), top + 2, bottom, [3, 3]);
  for (const never of rank.never) {
    const row = rows.find((each) => each.lane?.kind === "group" && each.lane.group === never.group);
    const y = (row ?? rows[0]!).y + PAD;
    const [x, right] = [across(picture, never.at), across(picture, picture.timeline.last)];
    if (right < 0 || x > picture.width) continue;
    const room = Math.max(6, right - x);
    context.setLineDash([4, 3]);
    outline(context, inks.second, x, y, room, LANE - 2 * PAD, 1.5);
    context.setLineDash([]);
    context.font = FONT;
    context.textAlign = "left";
    const long = context.measureText(picture.words.never).width + 8;
    const left = long < Math.min(room, picture.width - x) ? x : x - long;
    context.fillStyle = inks.panel;
    context.fillRect(left + 1, y + 1, long - 2, LANE - 2 * PAD - 2);
    context.fillStyle = inks.ink;
    context.fillText(picture.words.never, left + 4, y + LANE / 2 - PAD + 0.5);
  }
}

function upright(
  context: CanvasRenderingContext2D,
  ink: string,
  x: number,
  top: number,
  bottom: number,
  dash: number[],
): void {
  context.strokeStyle = ink;
  context.lineWidth = 1.5;
  context.setLineDash(dash);
  context.beginPath();
  context.moveTo(x, top);
  context.lineTo(x, bottom);
  context.stroke();
  context.setLineDash([]);
}
