// The strip: loss and gradient norm over all steps, hits below them, and the step as a cursor.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Answer } from "../api/client";
import type { Lane, Strip } from "../api/types";
import { isBad, short, tick, value, type Num } from "../format";
import { CopyMenu } from "../parts/copy";
import { Empty } from "../parts/empty";
import { magnification, sharpness } from "../parts/screen";
import { useWidth } from "../parts/width";
import { stepsCode } from "../python";
import { useLooking } from "../state/looking";
import { go } from "../state/place";
import { lastStep } from "../state/steps";
import { useStore } from "../state/store";
import { colour, keep, keptNumber, shownTheme } from "../state/theme";
import { useTexts } from "../texts";

const HEIGHT = 92;
/** Of a strip without numbers, such as a dump's: only the steps. */
const BARE = 30;
const SIDE = 56;
const LANE = 13;
const LANES = 50;
/** What an axis may count by: the library ends far below the largest numbers. */
const POWERS = Array.from({ length: 617 }, (_, index) => Number(`1e${index - 308}`));

export function StepStrip({ answer }: { answer: Answer<Strip> }) {
  const t = useTexts();
  const { place, run, step } = useLooking();
  const [log, setLog] = useState(keptNumber("log", 1) === 1);
  const strip = answer.data;
  const switchLog = (): void => (keep("log", log ? "0" : "1"), setLog(!log));
  const at = place.step ?? step;
  const index = strip && at !== null ? nearest(strip.steps, at) : -1;
  return (
    <section
      class={strip?.steps.length && !hasNumbers(strip) ? "strip bare" : "strip"}
      aria-label={t("loss")}
    >
      <div class="legend">
        <span class="key loss">
          {t("loss")} <b class={numClass(strip?.loss[index])}>{short(strip?.loss[index])}</b>
        </span>
        <span class="key norm">
          {t("gradient_norm")}{" "}
          <b class={numClass(strip?.gradient_norm[index])}>{short(strip?.gradient_norm[index])}</b>
        </span>
        <span class="grow" />
        <button class={log ? "chip on" : "chip"} aria-pressed={log} onClick={switchLog}>
          {t("log_scale")}
        </button>
        <CopyMenu json={() => strip} python={() => stepsCode(run?.path ?? "last", place.rank)} />
      </div>
      {strip?.steps.length ? <Chart strip={strip} log={log} at={at} /> : <Empty say="strip_empty" />}
    </section>
  );
}

const hasNumbers = (strip: Strip): boolean =>
  [...strip.loss, ...strip.gradient_norm].some((found) => found !== null);

const numClass = (found: Num): string => (isBad(found) ? "num bad" : "num");

/** The place of the step that stands for one. */
function nearest(steps: number[], step: number): number {
  let [low, high] = [0, steps.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle]! < step) low = middle + 1;
    else high = middle;
  }
  if (low > 0 && step - steps[low - 1]! < steps[low]! - step) return low - 1;
  return low;
}

/** Numbers that can be drawn: on a log scale, those above zero. */
function drawn(found: Num[], log: boolean): (number | null)[] {
  return found.map((one) => {
    const number = value(one);
    return number === null || !Number.isFinite(number) || (log && number <= 0) ? null : number;
  });
}

function Chart({ strip, log, at }: { strip: Strip; log: boolean; at: number | null }) {
  const [box, width] = useWidth();
  const look = useStore(shownTheme);
  const plot = useRef<uPlot | null>(null);
  const cursor = useRef<HTMLDivElement>(null);
  const latest = useRef(strip);
  latest.current = strip;
  const data = useMemo<uPlot.AlignedData>(
    () => [strip.steps, drawn(strip.loss, log), drawn(strip.gradient_norm, log)],
    [strip, log],
  );
  const chart = useRef<HTMLDivElement>(null);
  const place = (): void => {
    const line = cursor.current;
    if (!plot.current || !line) return;
    line.hidden = atNow.current === null;
    if (atNow.current !== null)
      line.style.left = `${(plot.current.valToPos(atNow.current, "x") + plot.current.bbox.left / devicePixelRatio) / magnification(box.current!)}px`;
  };
  const atNow = useRef(at);
  atNow.current = at;
  useLayoutEffect(() => {
    if (!chart.current || width < 50) return;
    const made = new uPlot(
      options(width, magnification(box.current!), log, () => latest.current, place),
      data,
      chart.current,
    );
    plot.current = made;
    place();
    return () => {
      made.destroy();
      plot.current = null;
    };
  }, [width, log, look, hasNumbers(strip)]);
  useEffect(() => {
    plot.current?.setData(data);
    place();
  }, [data]);
  useEffect(place, [at]);
  const choose = (event: MouseEvent): void => {
    if (!plot.current) return;
    const rect = plot.current.over.getBoundingClientRect();
    const step = plot.current.posToVal(event.clientX - rect.left, "x");
    const found = latest.current.steps[nearest(latest.current.steps, step)];
    if (found !== undefined) go({ step: found });
  };
  return (
    <div class="chart" ref={box} onClick={choose}>
      <div class="plot" ref={chart} />
      <Lanes
        lanes={strip.lanes}
        plot={plot.current}
        width={width}
        steps={strip.steps}
        last={lastStep(strip)}
      />
      <div class="cursor" ref={cursor} />
    </div>
  );
}

/** The library knows nothing of larger pixels: it draws in those of the screen. */
function options(
  width: number,
  by: number,
  log: boolean,
  strip: () => Strip,
  place: () => void,
): uPlot.Options {
  const ink = {
    stroke: colour("soft"),
    grid: { stroke: colour("grid"), width: 1 },
    ticks: { show: false },
    font: `${11 * by}px system-ui, sans-serif`,
  };
  const numbers = (_: uPlot, found: number[]): string[] =>
    found.map((one) => (one === null ? "" : tick(one)));
  const range = (_: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax => {
    if (low === null || high === null) return log ? [1, 10] : [0, 1]; // an axis without numbers keeps its place
    return log ? uPlot.rangeLog(low, high, 10, false) : uPlot.rangeNum(low, high, 0.1, true);
  };
  const withHeld = (_: uPlot, low: number, high: number): uPlot.Range.MinMax => {
    return [low, endOf(low, Math.max(high, lastStep(strip())))];
  };
  const scale: uPlot.Scale = log ? { distr: 3, range } : { range };
  const line = (name: string, shown: string): uPlot.Series => ({
    stroke: colour(name),
    width: 1.5 * by,
    scale: shown,
    points: { show: (u) => u.data[0].length < 3, size: 4 * by },
    spanGaps: false,
  });
  return {
    width: width * by,
    height: (hasNumbers(strip()) ? HEIGHT : BARE) * by,
    padding: [6 * by, 0, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false, setScale: false }, points: { size: 5 * by } },
    scales: { x: { time: false, range: withHeld }, loss: scale, norm: { ...scale } },
    series: [{}, line("accent", "loss"), line("second", "norm")],
    axes: [
      {
        ...ink,
        size: 18 * by,
        gap: by,
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6],
      },
      {
        ...ink,
        scale: "loss",
        incrs: POWERS,
        size: SIDE * by,
        gap: 6 * by,
        values: numbers,
        splits: few,
        filter: all,
      },
      {
        ...ink,
        scale: "norm",
        incrs: POWERS,
        side: 1,
        size: SIDE * by,
        gap: 6 * by,
        values: numbers,
        grid: { show: false },
        splits: few,
        filter: all,
      },
    ],
    hooks: { draw: [(u) => drawBad(u, strip(), by)], ready: [place], setScale: [place], setSize: [place] },
  };
}

const all = (_: uPlot, splits: number[]): number[] => splits;

/** Three marks on an axis are enough. */
function few(u: uPlot, axis: number, low: number, high: number): number[] {
  if (!u.data[axis]?.some((one) => one !== null)) return [];
  const log = u.scales.loss?.distr === 3;
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [];
  if (!log || low <= 0) return [low, (low + high) / 2, high];
  const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
  if (last - first < 1) return [low, Math.sqrt(low * high), high];
  return [...new Set([first, Math.round((first + last) / 2), last])].map((power) => 10 ** power);
}

/** Steps whose loss or gradient norm is not finite, in red. */
function drawBad(u: uPlot, strip: Strip, by: number): void {
  const context = u.ctx;
  context.save();
  context.fillStyle = colour("bad");
  strip.steps.forEach((step, index) => {
    if (!isBad(strip.loss[index]) && !isBad(strip.gradient_norm[index])) return;
    const x = u.valToPos(step, "x", true);
    const size = 4 * by * devicePixelRatio;
    context.beginPath();
    context.moveTo(x - size, u.bbox.top);
    context.lineTo(x + size, u.bbox.top);
    context.lineTo(x, u.bbox.top + size * 1.6);
    context.fill();
  });
  context.restore();
}

/** The end of the axis: there is room for the number of the last step. */
const endOf = (first: number, last: number): number => last + Math.max(1, last - first) * 0.012;

function Lanes({
  lanes,
  plot,
  width,
  steps,
  last,
}: {
  lanes: Lane[];
  plot: uPlot | null;
  width: number;
  steps: number[];
  last: number;
}) {
  const t = useTexts();
  const canvas = useRef<HTMLCanvasElement>(null);
  const look = useStore(shownTheme);
  const shown = lanes.slice(0, LANES);
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || width < 50) return;
    const ratio = sharpness(element);
    element.width = width * ratio;
    element.height = shown.length * LANE * ratio;
    const context = element.getContext("2d")!;
    context.scale(ratio, ratio);
    const low = steps[0] ?? 0;
    const high = endOf(low, last);
    const room = width - 2 * SIDE;
    const x = (step: number): number => SIDE + ((step - low) / Math.max(1, high - low)) * room;
    shown.forEach((_, row) => {
      context.fillStyle = colour("grid");
      context.fillRect(SIDE, row * LANE + LANE / 2, room, 1);
      context.fillStyle = colour("bad");
      for (const step of shown[row]!.steps) context.fillRect(x(step) - 2, row * LANE + 2, 4, LANE - 5);
    });
  }, [lanes, width, look, plot, steps, last]);
  return (
    <div class="lanes">
      {!shown.length && <span class="lane faint">{t("no_hits_yet")}</span>}
      <canvas ref={canvas} style={{ width: `${width}px`, height: `${shown.length * LANE}px` }} />
      {shown.map((lane, row) => (
        <span
          key={lane.watchpoint}
          class="lane"
          style={{ top: `${row * LANE}px` }}
          title={`${lane.label}: ${lane.steps.length}`}
        >
          {lane.label}
        </span>
      ))}
    </div>
  );
}
