// One value over the steps: its range as a band, its mean as a line; a click goes to the step.
import { useAnswer } from "../api/client";
import type { Series } from "../api/types";
import { short, value } from "../format";
import { aboutRank, useLooking } from "../state/looking";
import { go } from "../state/place";
import { useTexts } from "../texts";
import { pointIn } from "./screen";
import { useWidth } from "./width";

const HEIGHT = 46;

interface Point {
  step: number;
  low: number;
  high: number;
  mean: number | null;
  bad: boolean;
}

export function Trend({ node, io, slot }: { node: number; io: string; slot: number }) {
  const t = useTexts();
  const { place, step } = useLooking();
  const [box, width] = useWidth();
  const answer = useAnswer<Series>(
    aboutRank(place, `nodes/${node}/series`, { io, slot, stats: "min,max,mean,nan,posinf,neginf" }),
  );
  const points = answer.data && !answer.stale ? pointsOf(answer.data) : [];
  const few = points.length < 2;
  return (
    <div class={few ? "trend off" : "trend"} ref={box} title={t("trend")}>
      {!few && width > 40 && <Drawing points={points} width={width} step={place.step ?? step} />}
    </div>
  );
}

function pointsOf(series: Series): Point[] {
  const column = (name: string): (number | null)[] => (series.numbers[name] ?? []).map(value);
  const [low, high, mean] = [column("min"), column("max"), column("mean")];
  const bad = ["nan", "posinf", "neginf"].map(column);
  const points = series.steps.map((step, index): Point => ({
    step,
    low: low[index] ?? NaN,
    high: high[index] ?? NaN,
    mean: mean[index] ?? null,
    bad: bad.some((counts) => (counts[index] ?? 0) > 0),
  }));
  series.between.first.forEach((step, index) => {
    points.push({
      step,
      low: value(series.between.min[index]) ?? NaN,
      high: value(series.between.max[index]) ?? NaN,
      mean: null,
      bad: Number(series.between.nan[index]) + Number(series.between.inf[index]) > 0,
    });
  });
  return points.sort((a, b) => a.step - b.step);
}

/** Signed logarithm: ranges over many magnitudes stay visible on both sides of zero. */
function squeeze(number: number, unit: number): number {
  return Math.sign(number) * Math.log10(1 + Math.abs(number) / unit);
}

function Drawing({ points, width, step }: { points: Point[]; width: number; step: number | null }) {
  const finite = points.flatMap((point) => [point.low, point.high]).filter(Number.isFinite);
  const sizes = finite
    .map(Math.abs)
    .filter((size) => size > 0)
    .sort((a, b) => a - b);
  const [least, most] = [Math.min(...finite), Math.max(...finite)];
  const middle = sizes[sizes.length >> 1] ?? 1;
  const wide = Math.max(Math.abs(least), Math.abs(most)) > 50 * middle;
  const scale = (number: number): number => (wide ? squeeze(number, middle) : number);
  const [bottom, top] = [scale(least), scale(most)];
  const [first, last] = [points[0]!.step, points[points.length - 1]!.step];
  const x = (at: number): number => ((at - first) / Math.max(1, last - first)) * (width - 2) + 1;
  const y = (number: number): number =>
    HEIGHT - 4 - ((scale(number) - bottom) / (top - bottom || 1)) * (HEIGHT - 8);
  const sound = points.filter((point) => Number.isFinite(point.low) && Number.isFinite(point.high));
  const corner = (point: Point, side: "low" | "high"): string =>
    `${x(point.step).toFixed(1)},${y(point[side]).toFixed(1)}`;
  const band = [
    ...sound.map((point) => corner(point, "high")),
    ...sound.toReversed().map((point) => corner(point, "low")),
  ].join(" ");
  const mean = sound
    .filter((point) => point.mean !== null && Number.isFinite(point.mean))
    .map((point) => `${x(point.step).toFixed(1)},${y(point.mean!).toFixed(1)}`)
    .join(" ");
  const choose = (event: MouseEvent): void => {
    const { x: at } = pointIn(event, event.currentTarget as Element);
    const wanted = first + (at / width) * (last - first);
    const found = points.reduce((best, point) =>
      Math.abs(point.step - wanted) < Math.abs(best.step - wanted) ? point : best,
    );
    go({ step: found.step });
  };
  return (
    <svg width={width} height={HEIGHT} onClick={choose} role="img">
      <polygon class="band" points={band} />
      <polyline class="mean" points={mean} />
      {points
        .filter((point) => point.bad)
        .map((point) => (
          <rect key={point.step} class="badmark" x={x(point.step) - 1.5} y={0} width={3} height={HEIGHT} />
        ))}
      {step !== null && step >= first && step <= last && (
        <line class="now" x1={x(step)} x2={x(step)} y1={0} y2={HEIGHT} />
      )}
      <text x={2} y={9}>
        {short(most)}
      </text>
      <text x={2} y={HEIGHT - 2}>
        {short(least)}
      </text>
    </svg>
  );
}
