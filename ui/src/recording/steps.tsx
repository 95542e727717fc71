// Loss and memory over the last steps, each as a curve.
import { useState } from "preact/hooks";
import type { RecordedSteps } from "../api/types";
import { bytes, count, isBad, seconds, short, value, type Num } from "../format";
import { pointIn } from "../parts/screen";
import { useWidth } from "../parts/width";
import { useRecordingTexts } from "./texts";

const HEIGHT = 64;
const EDGE = 4;

interface Line {
  label: string;
  colour: string;
  numbers: Num[];
}

export function StepsPanel({ steps }: { steps: RecordedSteps }) {
  const r = useRecordingTexts();
  const [over, setOver] = useState<number | null>(null);
  if (steps.step.length === 0)
    return (
      <section class="panel" data-panel="steps">
        <h3>{r("steps", 0)}</h3>
        <p class="faint">{r("steps_empty")}</p>
      </section>
    );
  const line = (label: string, colour: string, numbers: Num[]): Line => ({ label, colour, numbers });
  const memory = [
    line(r("rss"), "--accent", steps.rss),
    line(r("allocated"), "--optimizer", steps.allocated),
    line(r("peak"), "--second", steps.peak),
  ];
  const curves: [string, Line[], (found: Num) => string][] = [
    ["loss", [line(r("loss"), "--accent", steps.loss)], short],
    ["gradient_norm", [line(r("gradient_norm"), "--backward", steps.gradient_norm)], short],
    ["largest", [line(r("largest"), "--forward", steps.largest)], short],
    ["not_finite", [line(r("not_finite"), "--bad", steps.not_finite)], (found) => count(found)],
    ["memory", memory, (found) => (found === null ? "–" : bytes(found))],
    ["seconds", [line(r("step_seconds"), "--other", steps.seconds)], seconds],
    ["lr", [line(r("learning_rate"), "--second", steps.lr)], short],
  ];
  const whole = steps.seconds.findLastIndex((found) => found !== null);
  const at = over ?? Math.max(0, whole);
  return (
    <section class="panel" data-panel="steps">
      <header>
        <h3>{r("steps", count(steps.step.length))}</h3>
        <span class="grow" />
        <span class="faint num">
          {steps.seconds[at] === null ? r("under_way", steps.step[at]!) : r("in_step", steps.step[at]!)}
        </span>
      </header>
      {curves.map(([name, lines, shown]) => {
        const there = lines.filter((each) => each.numbers.some((one) => value(one) !== null));
        return there.length ? (
          <Curve key={name} name={name} lines={there} steps={steps.step} at={at} shown={shown} onOver={setOver} />
        ) : null;
      })}
    </section>
  );
}

interface CurveProps {
  name: string;
  lines: Line[];
  steps: number[];
  at: number;
  shown: (found: Num) => string;
  onOver: (at: number | null) => void;
}

function Curve({ name, lines, steps, at, shown, onOver }: CurveProps) {
  const r = useRecordingTexts();
  const [box, width] = useWidth();
  const finite = lines.flatMap((line) => line.numbers.map(value)).filter((one) => one !== null && Number.isFinite(one));
  const [least, most] = [Math.min(...(finite as number[])), Math.max(...(finite as number[]))];
  const changes = least !== most || lines.some((line) => line.numbers.some(isBad));
  const x = (index: number): number => EDGE + (index / Math.max(1, steps.length - 1)) * (width - 2 * EDGE);
  const y = (number: number): number =>
    HEIGHT - EDGE - ((number - least) / (most - least || 1)) * (HEIGHT - 2 * EDGE);
  const move = (event: MouseEvent): void => {
    const drawing = event.currentTarget as Element;
    const share = (pointIn(event, drawing).x - EDGE) / Math.max(1, drawing.clientWidth - 2 * EDGE);
    onOver(Math.min(steps.length - 1, Math.max(0, Math.round(share * (steps.length - 1)))));
  };
  return (
    <figure class="curve" data-curve={name}>
      <figcaption>
        {name === "memory" && <span>{r("memory")}</span>}
        {lines.map((line) => (
          <span key={line.label} class="inkkey">
            <i style={{ background: `var(${line.colour})` }} />
            {line.label} <b class={isBad(line.numbers[at]) ? "num bad" : "num"}>{shown(line.numbers[at])}</b>
          </span>
        ))}
        <span class="grow" />
        {changes && finite.length > 0 && (
          <span class="faint num">
            {shown(least)} … {shown(most)}
          </span>
        )}
      </figcaption>
      <div ref={box} onMouseMove={move} onMouseLeave={() => onOver(null)}>
        {width > 2 * EDGE && changes && (
          <svg width={width} height={HEIGHT} role="img" aria-label={lines.map((line) => line.label).join(", ")}>
            {lines.map((line) => (
              <g key={line.label} style={{ stroke: `var(${line.colour})`, fill: `var(${line.colour})` }}>
                {pieces(line.numbers, x, y).map((points, index) => (
                  <polyline key={index} points={points} fill="none" stroke-width="1.5" />
                ))}
                {line.numbers.map((one, index) =>
                  isBad(one) ? (
                    <rect key={index} class="badmark" x={x(index) - 1.5} y={0} width={3} height={HEIGHT} />
                  ) : null,
                )}
                {dot(line.numbers[at], at, x, y)}
              </g>
            ))}
            <line class="now" x1={x(at)} x2={x(at)} y1={0} y2={HEIGHT} />
          </svg>
        )}
      </div>
    </figure>
  );
}

function dot(found: Num, at: number, x: (index: number) => number, y: (number: number) => number) {
  const number = value(found);
  if (number === null || !Number.isFinite(number)) return null;
  return <circle cx={x(at)} cy={y(number)} r={2.5} stroke="none" />;
}

/** The stretches of a line between steps that have no number. */
function pieces(numbers: Num[], x: (index: number) => number, y: (number: number) => number): string[] {
  const found: string[][] = [[]];
  numbers.forEach((one, index) => {
    const number = value(one);
    if (number === null || !Number.isFinite(number)) found.push([]);
    else found[found.length - 1]!.push(`${x(index).toFixed(1)},${y(number).toFixed(1)}`);
  });
  return found.filter((points) => points.length > 0).map((points) => points.join(" "));
}
