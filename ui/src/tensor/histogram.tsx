// How the elements are distributed: over x or log |x|, counts linear or log.
import { useAnswer } from "../api/client";
import type { Histogram as Answer } from "../api/types";
import { count, short, tick, value } from "../format";
import { Waiting } from "../parts/empty";
import { useSize } from "../parts/width";
import { change, type Asking } from "./state";
import { Choice } from "./choice";
import { useTensorTexts } from "./texts";

const BINS = 80;
const BOTTOM = 20;
const LEFT = 46;

export function Histogram({ asking, live }: { asking: Asking; live: boolean }) {
  const t = useTensorTexts();
  const { state, askShown } = asking;
  const [box, width, height] = useSize();
  const answer = useAnswer<Answer>(
    askShown("histogram", { fold: null, bins: BINS, log: state.bars === "log" }),
    live,
  );
  const { data } = answer;
  return (
    <div class="histogramlook">
      <div class="lookbar">
        <Choice
          say={t("axis_x")}
          of={["linear", "log"]}
          value={state.bars}
          onChoose={(bars) => change({ bars })}
        />
        <Choice
          say={t("axis_y")}
          of={["linear", "log"]}
          value={state.tall}
          onChoose={(tall) => change({ tall })}
        />
        <span class="grow" />
        {data && <Others of={data} />}
      </div>
      <div class="chart" ref={box}>
        {data && width > 80 ? (
          <Bars
            of={data}
            width={width}
            height={height}
            log={state.bars === "log"}
            tall={state.tall === "log"}
          />
        ) : (
          <Waiting answer={answer} />
        )}
      </div>
    </div>
  );
}

function Others({ of }: { of: Answer }) {
  const t = useTensorTexts();
  const found: [string, number, boolean][] = [
    ["NaN", Number(of.nan), true],
    ["+Inf", Number(of.posinf), true],
    ["−Inf", Number(of.neginf), true],
    [t("zero"), Number(of.zero), false],
  ];
  return (
    <>
      {found
        .filter(([, number]) => number > 0)
        .map(([name, number, bad]) => (
          <span key={name} class={bad ? "bad" : "faint"}>
            {name} × {count(number)}
          </span>
        ))}
    </>
  );
}

interface BarsProps {
  of: Answer;
  width: number;
  height: number;
  log: boolean;
  tall: boolean;
}

function Bars({ of, width, height, log, tall }: BarsProps) {
  const t = useTensorTexts();
  const counts = of.counts.map(Number);
  const most = Math.max(1, ...counts);
  const [right, bottom] = [width - LEFT - 10, height - BOTTOM - 10];
  const high = (number: number): number => {
    const share = tall ? Math.log1p(number) / Math.log1p(most) : number / most;
    return number > 0 ? Math.max(1, share * bottom) : 0;
  };
  const edge = (index: number): string => {
    const found = value(of.edges[index]) ?? 0;
    return short(log ? 10 ** found : found);
  };
  const step = right / counts.length;
  const marks = tall ? [1, Math.round(Math.sqrt(most)), most] : [Math.round(most / 2), most];
  const [low, top] = [value(of.edges[0]) ?? 0, value(of.edges[of.edges.length - 1]) ?? 1];
  return (
    <svg class="histbars" width={width} height={height} role="img" aria-label={t("histogram")}>
      {marks.map((mark) => (
        <g key={mark} transform={`translate(0 ${10 + bottom - high(mark)})`}>
          <line class="gridline" x1={LEFT} x2={LEFT + right} />
          <text class="ticktext" x={LEFT - 5} y={4} text-anchor="end">
            {tick(mark)}
          </text>
        </g>
      ))}
      {counts.map((number, index) => {
        const below = Number(of.negative[index]);
        const whole = high(number);
        const part = number ? (below / number) * whole : 0;
        const about = `${log ? "|x| " : ""}${edge(index)} … ${edge(index + 1)}: ${count(number)}`;
        return (
          <g key={index} class="onebar" transform={`translate(${LEFT + index * step} ${10 + bottom})`}>
            <rect class="ground" x={0} y={-bottom} width={step} height={bottom} />
            <rect class="above" x={0.5} y={-whole} width={Math.max(1, step - 1)} height={whole - part} />
            <rect class="below" x={0.5} y={-part} width={Math.max(1, step - 1)} height={part} />
            <title>{log ? `${about}, ${count(below)} ${t("negative")}` : about}</title>
          </g>
        );
      })}
      {!log && low < 0 && top > 0 && (
        <line
          class="zeroline"
          x1={LEFT + (-low / (top - low)) * right}
          x2={LEFT + (-low / (top - low)) * right}
          y1={10}
          y2={10 + bottom}
        />
      )}
      {[0, 0.25, 0.5, 0.75, 1].map((share) => (
        <text
          key={share}
          class="ticktext"
          x={LEFT + share * right}
          y={height - 5}
          text-anchor={share === 0 ? "start" : share === 1 ? "end" : "middle"}
        >
          {short(log ? 10 ** (low + share * (top - low)) : low + share * (top - low))}
        </text>
      ))}
    </svg>
  );
}
