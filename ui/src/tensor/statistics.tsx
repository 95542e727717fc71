// The numbers of what is shown, its quantiles, how far it is from another, and numbers along an axis.
import { useAnswer } from "../api/client";
import type { Along, Compared, Layout, Numbers, Statistics as Answer } from "../api/types";
import { count, full, isBad, short, value, type Num } from "../format";
import { Waiting } from "../parts/empty";
import { useWidth } from "../parts/width";
import { shown } from "./numbers";
import { change, type Asking } from "./state";
import { useTensorTexts, type TensorText } from "./texts";

const PLACES = 100;
const FLOATS = ["min", "max", "mean", "std", "mean_abs", "l2"] as const;
const COUNTS = ["zero", "negative", "positive"] as const;

interface Props {
  asking: Asking;
  layout: Layout;
  live: boolean;
}

export function Statistics({ asking, layout, live }: Props) {
  const t = useTensorTexts();
  const answer = useAnswer<Answer>(asking.askShown("statistics", { fold: null }), live);
  return (
    <div class="statisticslook scroll">
      {answer.data ? (
        <div class="statcards">
          <section>
            <h3>{t("of_slice")}</h3>
            <NumbersTable of={answer.data.numbers} asking={asking} />
          </section>
          <section>
            <h3>
              {t("quantiles")} {answer.data.sampled && <span class="faint">{t("sampled")}</span>}
            </h3>
            <dl class="numbers">
              {answer.data.quantiles.map(([share, found]) => (
                <Entry key={String(share)} name={`${Number(share) * 100} %`} found={found} asking={asking} />
              ))}
            </dl>
          </section>
          {asking.isDifference && <Apart asking={asking} />}
        </div>
      ) : (
        <Waiting answer={answer} />
      )}
      <AlongAxis asking={asking} layout={layout} live={live} />
    </div>
  );
}

function Entry({ name, found, asking }: { name: string; found: Num; asking: Asking }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class={isBad(found) ? "num bad" : "num"} title={full(found)}>
        {shown(found, asking.state)}
      </dd>
    </div>
  );
}

export function NumbersTable({ of, asking }: { of: Numbers; asking: Asking }) {
  const t = useTensorTexts();
  const bad: [string, Num][] = [
    ["NaN", of.nan],
    ["+Inf", of.posinf],
    ["−Inf", of.neginf],
  ];
  const share = (found: Num): string => {
    const part = Number(of.count) ? (100 * Number(found)) / Number(of.count) : 0;
    return part === 0 ? "0" : `${part.toPrecision(3)} %`;
  };
  return (
    <dl class="numbers">
      <div>
        <dt>{t("elements")}</dt>
        <dd class="num">{count(of.count)}</dd>
      </div>
      {bad
        .filter(([, found]) => Number(found) > 0)
        .map(([name, found]) => (
          <div key={name} class="bad">
            <dt>{name}</dt>
            <dd class="num">{count(found)}</dd>
          </div>
        ))}
      {FLOATS.map((name) => (
        <Entry key={name} name={t(name)} found={of[name]} asking={asking} />
      ))}
      {COUNTS.map((name) => (
        <div key={name}>
          <dt>{t(name)}</dt>
          <dd class="num" title={full(of[name])}>
            {share(of[name])}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Apart({ asking }: { asking: Asking }) {
  const t = useTensorTexts();
  const { data, error } = useAnswer<Compared>(asking.askShown("compared"), false);
  if (error) return <p class="empty">{error.message}</p>;
  if (!data) return null;
  return (
    <section class="apart">
      <h3>{t("difference")}</h3>
      <dl class="numbers">
        <div>
          <dt>{t("differing")}</dt>
          <dd class="num">{count(data.differing)}</dd>
        </div>
        <div>
          <dt>{t("beyond")}</dt>
          <dd class="num">{count(data.beyond)}</dd>
        </div>
        <Entry name={t("largest_apart")} found={data.max_abs} asking={asking} />
        <Entry name={t("mean_apart")} found={data.mean_abs} asking={asking} />
        <Entry name={t("cosine")} found={data.cosine} asking={asking} />
      </dl>
      {data.index && (
        <button class="link" onClick={() => change({ at: data.index!.join(","), look: "table" })}>
          [{data.index.join(", ")}]
        </button>
      )}
    </section>
  );
}

function AlongAxis({ asking, layout, live }: Props) {
  const t = useTensorTexts();
  const { state } = asking;
  const ranged = layout.axes.flatMap((axis, place) => (axis.ranged ? [place] : []));
  const axis = ranged.includes(state.axis) ? state.axis : ranged[0];
  const answer = useAnswer<Along>(
    axis === undefined
      ? null
      : asking.askShown("along", { fold: null, axis, first: state.first || null, count: PLACES }),
    live,
  );
  if (axis === undefined) return null;
  const { data } = answer;
  return (
    <section class="along">
      <div class="lookbar">
        <h3>{t("per_axis")}</h3>
        <select
          aria-label={t("per_axis")}
          value={axis}
          onChange={(event) => change({ axis: Number(event.currentTarget.value), first: 0 })}
        >
          {ranged.map((place) => (
            <option key={place} value={place}>
              {t("axis", place, layout.axes[place]!.count)}
            </option>
          ))}
        </select>
        <span class="grow" />
        {data && data.total > PLACES && <Pages first={state.first} size={PLACES} total={data.total} />}
      </div>
      {data ? <AxisTable of={data} asking={asking} /> : <Waiting answer={answer} />}
    </section>
  );
}

export function Pages({ first, size, total }: { first: number; size: number; total: number }) {
  const t = useTensorTexts();
  return (
    <span class="field">
      <button
        class="quiet"
        title={t("earlier")}
        disabled={first === 0}
        onClick={() => change({ first: Math.max(0, first - size) })}
      >
        ◀
      </button>
      {t("first", first, Math.min(total, first + size) - 1, count(total))}
      <button
        class="quiet"
        title={t("later")}
        disabled={first + size >= total}
        onClick={() => change({ first: first + size })}
      >
        ▶
      </button>
    </span>
  );
}

const SHOWN: TensorText[] = ["min", "mean", "max", "std", "l2", "zero_share", "bad"];

function AxisTable({ of, asking }: { of: Along; asking: Asking }) {
  const t = useTensorTexts();
  const [box, width] = useWidth();
  const choose = (index: number): void => {
    const words = asking.place.index ? asking.place.index.split(",") : [];
    while (words.length <= of.axis) words.push(":");
    words[of.axis] = String(index);
    change({ window: "", look: "heat" }, false, { index: words.join(",") });
  };
  return (
    <div ref={box}>
      {width > 60 && of.numbers.length > 1 && <Band of={of} width={width} onChoose={choose} />}
      <table class="table axistable">
        <thead>
          <tr>
            <th />
            {SHOWN.map((name) => (
              <th key={name} class="end">
                {t(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {of.numbers.map((numbers, place) => (
            <tr key={of.index[place]} onClick={() => choose(of.index[place]!)}>
              <td class="num">{of.index[place]}</td>
              {SHOWN.map((name) => (
                <AxisCell key={name} name={name} of={numbers} asking={asking} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function AxisCell({ name, of, asking }: { name: TensorText; of: Numbers; asking: Asking }) {
  if (name === "bad") {
    const bad = Number(of.nan) + Number(of.posinf) + Number(of.neginf);
    return <td class={bad ? "num end bad" : "num end faint"}>{count(bad)}</td>;
  }
  if (name === "zero_share") {
    const share = Number(of.count) ? Number(of.zero) / Number(of.count) : 0;
    return <td class="num end">{share ? `${(100 * share).toPrecision(3)} %` : "0"}</td>;
  }
  const found = of[name as keyof Numbers];
  return (
    <td class={isBad(found) ? "num end bad" : "num end"} title={full(found)}>
      {shown(found, asking.state)}
    </td>
  );
}

const BAND = 56;

/** From least to largest for each place, with the mean; a click takes the place. */
function Band({ of, width, onChoose }: { of: Along; width: number; onChoose: (index: number) => void }) {
  const ends = of.numbers.map((one) => [value(one.min), value(one.mean), value(one.max)] as const);
  const finite = ends.flat().filter((one): one is number => one !== null && Number.isFinite(one));
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const y = (one: number | null): number =>
    one === null || !Number.isFinite(one)
      ? BAND / 2
      : BAND - 3 - ((one - low) / (high - low || 1)) * (BAND - 6);
  const step = width / ends.length;
  return (
    <svg class="axisband" width={width} height={BAND}>
      {ends.map(([least, mean, most], place) => (
        <g key={place} onClick={() => onChoose(of.index[place]!)}>
          <rect class="ground" x={place * step} y={0} width={step} height={BAND} />
          <rect
            class="span"
            x={place * step}
            y={y(most)}
            width={Math.max(1, step - 0.5)}
            height={Math.max(1, y(least) - y(most))}
          />
          <rect class="middle" x={place * step} y={y(mean) - 1} width={Math.max(1, step - 0.5)} height={2} />
          <title>{`${of.index[place]}: ${short(least)} … ${short(mean)} … ${short(most)}`}</title>
        </g>
      ))}
    </svg>
  );
}
