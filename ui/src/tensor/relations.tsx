// What a tensor was computed from and what it feeds: a click goes there, so a fault can be walked.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { useAnswer } from "../api/client";
import type { Numbers, RelatedValue, Relations as Answer } from "../api/types";
import { kind, short, value, type Num } from "../format";
import { Waiting } from "../parts/empty";
import { useSize } from "../parts/width";
import { useStore } from "../state/store";
import { shownTheme } from "../state/theme";
import { ramp, shares } from "../views/colours";
import { arrange, BOX, type Placed } from "./relations_layout";
import { change, openValue, type Asking } from "./state";
import { useTensorTexts, type TensorText } from "./texts";

const STATS = ["max_abs", "mean_abs", "std", "l2", "zero_share", "bad"] as const;
type Stat = (typeof STATS)[number];

export function Relations({ asking, live }: { asking: Asking; live: boolean }) {
  const t = useTensorTexts();
  const { state, ask } = asking;
  const [box, width, height] = useSize();
  const answer = useAnswer<Answer>(ask("relations", { hops: state.hops }), live);
  const stat: Stat = STATS.find((name) => name === state.stat) ?? "max_abs";
  return (
    <div class="relationslook">
      <div class="lookbar">
        <button class="quiet" title={t("back")} onClick={() => history.back()}>
          ◀ {t("back")}
        </button>
        <button class="quiet" title={t("forward")} onClick={() => history.forward()}>
          {t("forward")} ▶
        </button>
        <label class="field">
          {t("hops")}
          <select
            value={state.hops}
            aria-label={t("hops")}
            onChange={(e) => change({ hops: Number(e.currentTarget.value) })}
          >
            {[1, 2, 3, 4, 6, 8].map((hops) => (
              <option key={hops}>{hops}</option>
            ))}
          </select>
        </label>
        <label class="field">
          {t("colour_by")}
          <select
            value={stat}
            aria-label={t("colour_by")}
            onChange={(e) => change({ stat: e.currentTarget.value })}
          >
            {STATS.map((name) => (
              <option key={name} value={name}>
                {t(name as TensorText)}
              </option>
            ))}
          </select>
        </label>
        <span class="grow" />
        {answer.data && answer.data.hidden > 0 && (
          <span class="faint">{t("hidden", answer.data.hidden)}</span>
        )}
      </div>
      <div class="relationbox scroll" ref={box} title={t("relations_tip")}>
        {answer.data && !answer.error ? (
          <Diagram of={answer.data} stat={stat} width={width} height={height} />
        ) : answer.error && answer.error.status !== 0 ? (
          <p class="empty">{answer.error.message}</p>
        ) : (
          <Waiting answer={answer} />
        )}
      </div>
    </div>
  );
}

export function isWrong(numbers: Numbers | null): boolean {
  return numbers !== null && Number(numbers.nan) + Number(numbers.posinf) + Number(numbers.neginf) > 0;
}

function statOf(numbers: Numbers | null, stat: Stat): number {
  if (!numbers) return NaN;
  if (stat === "max_abs")
    return Math.max(Math.abs(value(numbers.min) ?? NaN), Math.abs(value(numbers.max) ?? NaN));
  if (stat === "zero_share") return Number(numbers.zero) / Math.max(1, Number(numbers.count));
  if (stat === "bad") return Number(numbers.nan) + Number(numbers.posinf) + Number(numbers.neginf);
  return value(numbers[stat] as Num) ?? NaN;
}

const SMALLEST = 0.64;

function Diagram({ of, stat, width, height }: { of: Answer; stat: Stat; width: number; height: number }) {
  const placed = useMemo(() => arrange(of, width - 8, height), [of, width, height]);
  const svg = useRef<SVGSVGElement>(null);
  const zoom = Math.max(SMALLEST, Math.min(1, (width - 8) / placed.width));
  useLayoutEffect(() => {
    const centre = placed.places.get(of.centre);
    const scroll = svg.current?.parentElement;
    if (!centre || !scroll) return;
    scroll.scrollLeft = (centre.x + BOX.width / 2) * zoom - width / 2;
    scroll.scrollTop = (centre.y + BOX.height / 2) * zoom - height / 2;
  }, [placed, zoom]);
  const dark = useStore(shownTheme) === "dark";
  const isShare = stat === "zero_share" || stat === "bad";
  const scale = useMemo(
    () =>
      shares(
        of.values.map((one) => statOf(one.numbers, stat)),
        isShare,
        1,
      ),
    [of, stat],
  );
  return (
    <svg
      ref={svg}
      class="relations"
      width={placed.width * zoom}
      height={placed.height * zoom}
      viewBox={`0 0 ${placed.width} ${placed.height}`}
      role="img"
    >
      <defs>
        <marker
          id="towards"
          viewBox="0 0 8 8"
          refX="7"
          refY="4"
          markerWidth="6"
          markerHeight="6"
          orient="auto"
        >
          <path d="M0 0 8 4 0 8z" class="arrow" />
        </marker>
      </defs>
      {of.edges.map(({ start, end }) => (
        <Edge key={`${start}→${end}`} from={placed.places.get(start)} to={placed.places.get(end)} />
      ))}
      {of.values.map((one) => {
        const number = statOf(one.numbers, stat);
        const share = Number.isFinite(number) ? scale.share(number) : null;
        return (
          <RelatedBox
            key={one.id}
            of={one}
            at={placed.places.get(one.id)!}
            isCentre={one.id === of.centre}
            fill={share === null ? undefined : ramp(share, dark)}
            isStrong={share !== null && (dark ? share > 0.72 : share > 0.55)}
            shown={stat === "zero_share" ? `${(100 * number).toPrecision(3)} %` : short(number)}
          />
        );
      })}
    </svg>
  );
}

function Edge({ from, to }: { from: Placed | undefined; to: Placed | undefined }) {
  if (!from || !to) return null;
  const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2];
  const bend = Math.max(24, Math.abs(x2 - x1) / 2);
  return (
    <path
      class="edge"
      d={`M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`}
      marker-end="url(#towards)"
    />
  );
}

interface BoxProps {
  of: RelatedValue;
  at: Placed;
  isCentre: boolean;
  fill: string | undefined;
  isStrong: boolean;
  shown: string;
}

function RelatedBox({ of, at, isCentre, fill, isStrong, shown }: BoxProps) {
  const wrong = isWrong(of.numbers);
  const open = (): void => {
    if (!isCentre) openValue(of.node, `${of.io}:${of.slot}`);
  };
  const style = [
    "rbox",
    isCentre ? "centre" : "",
    wrong ? "wrong" : "",
    of.kind === "value" ? "" : "outside",
    isStrong && !wrong ? "strong" : "",
  ];
  const detail = wrong
    ? badWords(of.numbers!)
    : of.numbers
      ? shown
      : of.kind === "value"
        ? of.where
        : of.kind;
  const name = of.kind !== "value" ? of.label : of.slot ? `${of.label}:${of.slot}` : of.label;
  return (
    <g
      class={style.join(" ")}
      transform={`translate(${at.x} ${at.y})`}
      data-value={of.id}
      tabIndex={0}
      role="button"
      onClick={open}
      onKeyDown={(event) => event.key === "Enter" && open()}
    >
      <title>{[of.scope, name, kind(of.dtype, of.shape), of.where].filter(Boolean).join("\n")}</title>
      <rect
        width={BOX.width}
        height={BOX.height}
        rx={of.kind === "value" ? 5 : 18}
        style={fill && !wrong ? { fill } : undefined}
      />
      <text x={9} y={16} class="glabel">
        {cut(name, 17)}
      </text>
      <text x={9} y={31} class="gdetail">
        {cut(`${detail}${of.shape ? ` · [${of.shape.join(", ")}]` : ""}`, 23)}
      </text>
      {of.conditions.length > 0 && (
        <g class="conditions" transform={`translate(${BOX.width - 4} -4)`}>
          <rect
            x={-9 * of.conditions.join(" ").length - 6}
            y={-6}
            width={9 * of.conditions.join(" ").length + 8}
            height={16}
            rx={4}
          />
          <text x={-2} y={6} text-anchor="end">
            {of.conditions.join(" ")}
          </text>
        </g>
      )}
    </g>
  );
}

function badWords(numbers: Numbers): string {
  const found: [string, Num][] = [
    ["NaN", numbers.nan],
    ["+Inf", numbers.posinf],
    ["−Inf", numbers.neginf],
  ];
  return found
    .filter(([, number]) => Number(number) > 0)
    .map(([name, number]) => `${name} ×${String(number)}`)
    .join(" ");
}

function cut(text: string, letters: number): string {
  if (text.length <= letters) return text;
  const tail = Math.floor(letters * 0.35);
  return `${text.slice(0, letters - tail - 1)}…${text.slice(-tail)}`;
}
