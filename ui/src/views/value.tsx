// A saved value: a picture of it, its histogram, and its first elements.
import { useLayoutEffect, useRef } from "preact/hooks";
import { useAnswer } from "../api/client";
import type { Histogram, NodeDetails, Slice, Tile, ValueFacts } from "../api/types";
import { count, isBad, kind, short, value } from "../format";
import { CopyMenu } from "../parts/copy";
import { Empty, Waiting } from "../parts/empty";
import { Range } from "../parts/number";
import { useWidth } from "../parts/width";
import { nodeCode } from "../python";
import { Typed } from "../panels/nodes";
import { aboutStep, useLooking } from "../state/looking";
import { go } from "../state/place";
import { useStore } from "../state/store";
import { colour, shownTheme } from "../state/theme";
import { useTexts } from "../texts";
import { diverging, hatch } from "./colours";

const CELLS = 160;
const SHOWN = 200;

export function ValueView() {
  const t = useTexts();
  const { place, run } = useLooking();
  const [io, slot] = place.value.split(":");
  const base = `values/${place.node}/${io}/${slot}`;
  const isValue = place.node !== null && (io === "input" || io === "output") && /^\d+$/.test(slot ?? "");
  const pass = place.pass || null;
  const node = useAnswer<NodeDetails>(
    isValue ? aboutStep(place, `nodes/${place.node}`, { pass }) : null,
    false,
  );
  const sides = node.data?.id === place.node ? [...node.data.inputs, ...node.data.outputs] : [];
  const saved = sides.some((side) => side.saved && side.io === io && side.slot === Number(slot));
  const facts = useAnswer<ValueFacts>(saved ? aboutStep(place, base, { pass }) : null, false);
  if (!isValue) return <Empty say="value_empty" />;
  if (node.data && !node.stale && !saved) return <Empty say="value_not_saved" />;
  if (!facts.data) return <Waiting answer={facts} />;
  const { address, step, dtype, shape, numbers } = facts.data;
  return (
    <div class="valueview scroll">
      <div class="viewbar">
        <code class="clip" title={address}>
          {address}
        </code>{" "}
        <code class="fixed">{kind(dtype, shape)}</code>{" "}
        <span class="faint fixed">
          {t("step")} {step}
        </span>
        <Range low={numbers.min} high={numbers.max} />
        <span class="grow" />
        <span class="field">
          {t("index")}{" "}
          <Typed id="index" say="0, :, 2:10" value={place.index} onChange={(index) => go({ index }, true)} />
        </span>
        <CopyMenu
          json={() => facts.data}
          python={() => nodeCode(run?.path ?? "last", address.replace(/:.*$/, ""), step)}
        />
      </div>
      <Picture base={base} />
      <Bars base={base} />
      <Elements base={base} shape={shape} />
    </div>
  );
}

function Picture({ base }: { base: string }) {
  const { place } = useLooking();
  const [box, width] = useWidth();
  const answer = useAnswer<Tile>(
    aboutStep(place, `${base}/tile`, {
      index: place.index,
      pass: place.pass || null,
      rows: CELLS,
      columns: CELLS,
    }),
    false,
  );
  const canvas = useRef<HTMLCanvasElement>(null);
  const look = useStore(shownTheme);
  const tile = answer.data;
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || !tile || !tile.rows || !tile.columns || width < 20) return;
    const size = Math.max(
      1,
      Math.min(24, Math.floor((width - 24) / tile.columns), Math.floor(320 / tile.rows)) || 1,
    );
    element.width = tile.columns * size;
    element.height = tile.rows * size;
    const brush = element.getContext("2d")!;
    const bad = hatch(brush, colour("nan"), colour("bad-ground"));
    const [low, high] = [tile.low.map(value), tile.high.map(value)];
    const most = Math.max(1e-300, ...[...low, ...high].map((one) => Math.abs(one ?? 0)));
    for (let index = 0; index < low.length; index++) {
      const wrong = tile.nan[index]! + tile.posinf[index]! + tile.neginf[index]! > 0;
      const [a, b] = [low[index] ?? 0, high[index] ?? 0];
      brush.fillStyle = wrong
        ? bad
        : diverging((Math.abs(a!) > Math.abs(b!) ? a! : b!) / most, look === "dark");
      brush.fillRect((index % tile.columns) * size, Math.floor(index / tile.columns) * size, size, size);
    }
  }, [tile, width, look]);
  return (
    <div ref={box} class="picture">
      {answer.error && <p class="empty">{answer.error.message}</p>}
      <canvas ref={canvas} />
    </div>
  );
}

function Bars({ base }: { base: string }) {
  const t = useTexts();
  const { place } = useLooking();
  const { data } = useAnswer<Histogram>(
    aboutStep(place, `${base}/histogram`, { bins: 60, pass: place.pass || null }),
    false,
  );
  if (!data?.counts.length) return null;
  const most = Math.max(1, ...data.counts.map(Number));
  return (
    <figure class="histogram">
      <figcaption class="faint">{t("histogram")}</figcaption>
      <svg viewBox="0 0 600 80" preserveAspectRatio="none">
        {data.counts.map((one, index) => {
          const height = (Number(one) / most) * 78;
          return (
            <rect key={index} x={index * 10 + 0.5} y={80 - height} width={9} height={height}>
              <title>{`${short(data.edges[index])} … ${short(data.edges[index + 1])}: ${count(one)}`}</title>
            </rect>
          );
        })}
      </svg>
      <div class="ends num">
        <span>{short(data.edges[0])}</span>
        <span>{short(data.edges[data.edges.length - 1])}</span>
      </div>
    </figure>
  );
}

function Elements({ base, shape }: { base: string; shape: number[] }) {
  const t = useTexts();
  const { place } = useLooking();
  const rest = shape.slice(0, -1).map(() => "0");
  const index = place.index || [...rest, ...(shape.length ? [`:${SHOWN}`] : [])].join(",");
  const { data, error } = useAnswer<Slice>(
    aboutStep(place, `${base}/slice`, { index, pass: place.pass || null }),
    false,
  );
  if (error) return <p class="empty">{error.message}</p>;
  if (!data) return null;
  const columns = data.shape[data.shape.length - 1] ?? 1;
  return (
    <section>
      <h3>
        {t("first_elements")} <code class="faint">[{index}]</code>
      </h3>
      <div class="elements num" data-columns={columns}>
        {data.elements.slice(0, SHOWN * 4).map((one, place) => (
          <span key={place} class={isBad(one) ? "bad" : ""} title={String(one)}>
            {short(one)}
          </span>
        ))}
      </div>
    </section>
  );
}
