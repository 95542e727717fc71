// A statistic of the value over all steps; a click goes to the step.
import { useAnswer } from "../api/client";
import type { Series, ValueFacts } from "../api/types";
import { short, tick, value } from "../format";
import { pointIn } from "../parts/screen";
import { useSize } from "../parts/width";
import { aboutRank, useLooking } from "../state/looking";
import { go } from "../state/place";
import { Choice } from "./choice";
import { change, type Asking } from "./state";
import { useTensorTexts, type TensorText } from "./texts";

const STATS = ["min", "max", "mean", "mean_abs", "std", "l2", "zero", "nan"] as const;
type Stat = (typeof STATS)[number];
const [LEFT, BOTTOM] = [56, 22];

export function TrendLook({ asking, facts }: { asking: Asking; facts: ValueFacts }) {
  const t = useTensorTexts();
  const { place, step } = useLooking();
  const [box, width, height] = useSize();
  const stat: Stat = STATS.find((name) => name === asking.state.stat) ?? "max";
  const isSource = facts.source_node !== null;
  const answer = useAnswer<Series>(
    aboutRank(place, `nodes/${isSource ? facts.source_node : facts.node}/series`, {
      io: isSource ? "output" : facts.io,
      slot: isSource ? facts.source_slot : facts.slot,
      stats: `${stat},nan,posinf,neginf`,
    }),
  );
  const points = answer.data && !answer.stale ? pointsOf(answer.data, stat) : [];
  return (
    <div class="trendlook">
      <div class="lookbar">
        <select
          aria-label={t("statistics")}
          value={stat}
          onChange={(event) => change({ stat: event.currentTarget.value })}
        >
          {STATS.map((name) => (
            <option key={name} value={name}>
              {t(name as TensorText)}
            </option>
          ))}
        </select>
        <Choice of={["linear", "log"]} value={asking.state.tall} onChoose={(tall) => change({ tall })} />
      </div>
      <div class="chart" ref={box}>
        {points.length < 2 ? (
          <p class="empty">{t("few_steps")}</p>
        ) : (
          width > 100 && (
            <Lines
              points={points}
              width={width}
              height={height}
              log={asking.state.tall === "log"}
              now={place.step ?? step}
            />
          )
        )}
      </div>
    </div>
  );
}

interface Point {
  step: number;
  y: number | null;
  bad: boolean;
}

function pointsOf(series: Series, stat: Stat): Point[] {
  const bad = ["nan", "posinf", "neginf"].map((name) => series.numbers[name] ?? []);
  return series.steps.map((step, index) => ({
    step,
    y: value(series.numbers[stat]?.[index]),
    bad: bad.some((counts) => Number(counts[index]) > 0),
  }));
}

interface LinesProps {
  points: Point[];
  width: number;
  height: number;
  log: boolean;
  now: number | null;
}

function Lines({ points, width, height, log, now }: LinesProps) {
  const t = useTensorTexts();
  const scaled = (y: number): number => (log ? Math.log10(Math.abs(y)) : y);
  const sound = points.filter((p) => p.y !== null && Number.isFinite(scaled(p.y)));
  const ys = sound.map((p) => scaled(p.y!));
  const [low, high] = ys.length ? [Math.min(...ys), Math.max(...ys)] : [0, 1];
  const [first, last] = [points[0]!.step, points[points.length - 1]!.step];
  const [right, bottom] = [width - LEFT - 12, height - BOTTOM - 12];
  const x = (step: number): number => LEFT + ((step - first) / Math.max(1, last - first)) * right;
  const y = (found: number): number => 8 + bottom - ((scaled(found) - low) / (high - low || 1)) * bottom;
  const choose = (event: MouseEvent): void => {
    const { x: at } = pointIn(event, event.currentTarget as Element);
    const wanted = first + ((at - LEFT) / right) * (last - first);
    const near = points.reduce((best, p) =>
      Math.abs(p.step - wanted) < Math.abs(best.step - wanted) ? p : best,
    );
    go({ step: near.step });
  };
  return (
    <svg class="trendlines" width={width} height={height} role="img" aria-label={t("trend")} onClick={choose}>
      {[0, 0.5, 1].map((share) => {
        const at = low + share * (high - low);
        return (
          <g key={share} transform={`translate(0 ${8 + bottom - share * bottom})`}>
            <line class="gridline" x1={LEFT} x2={LEFT + right} />
            <text class="ticktext" x={LEFT - 5} y={4} text-anchor="end">
              {tick(log ? 10 ** at : at)}
            </text>
          </g>
        );
      })}
      {points
        .filter((p) => p.bad)
        .map((p) => (
          <rect key={p.step} class="badmark" x={x(p.step) - 2} y={8} width={4} height={bottom} />
        ))}
      <polyline
        class="mean"
        points={sound.map((p) => `${x(p.step).toFixed(1)},${y(p.y!).toFixed(1)}`).join(" ")}
      />
      {points.length <= 200 &&
        sound.map((p) => (
          <circle key={p.step} cx={x(p.step)} cy={y(p.y!)} r={3}>
            <title>{`${p.step}: ${short(p.y)}`}</title>
          </circle>
        ))}
      {now !== null && now >= first && now <= last && (
        <line class="now" x1={x(now)} x2={x(now)} y1={8} y2={8 + bottom} />
      )}
      <text class="ticktext" x={LEFT} y={height - 6}>
        {first}
      </text>
      <text class="ticktext" x={LEFT + right} y={height - 6} text-anchor="end">
        {last}
      </text>
    </svg>
  );
}
