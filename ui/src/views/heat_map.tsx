// Layer × step: one number per scope and step, drawn on a canvas; only what is seen is drawn.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, useAnswer } from "../api/client";
import type { HeatMap, NodeDetails, NodeList } from "../api/types";
import { short, value } from "../format";
import { CopyMenu } from "../parts/copy";
import { Empty, Waiting } from "../parts/empty";
import { pointIn, sharpness } from "../parts/screen";
import { useSize } from "../parts/width";
import { scopesCode } from "../python";
import { aboutRank, aboutStep, useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { useStore } from "../state/store";
import { colour, shownTheme } from "../state/theme";
import { named, useTexts } from "../texts";
import { hatch, ramp, shares } from "./colours";

const STATS = ["max", "mean_abs", "l2", "zero_share", "nan", "inf"];
const LINEAR = new Set(["zero_share", "nan", "inf"]);
const ROW = 20;
const LABELS = 210;
const AXIS = 20;
const LEAST_COLUMN = 3;
const COLUMNS = 160;
/** A row that is coloured by itself spans at least so many powers of ten. */
const LEAST_SPAN = 1;

export function HeatMapView() {
  const t = useTexts();
  const { place, run, step } = useLooking();
  const path = aboutRank(place, "heatmap", {
    stat: place.stat,
    depth: place.depth,
    scope: place.within,
    first: place.from,
    last: place.to,
    columns: COLUMNS,
  });
  const answer = useAnswer<HeatMap>(path);
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const map = answer.data;
  return (
    <div class="heat">
      <div class="viewbar">
        <label class="field">
          <select
            aria-label={t("statistic")}
            title={t("statistic")}
            value={place.stat}
            onChange={(e) => go({ stat: e.currentTarget.value }, true)}
          >
            {STATS.map((stat) => (
              <option key={stat} value={stat}>
                {named("stat", stat)}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          {t("depth")}
          <select value={place.depth} onChange={(e) => go({ depth: Number(e.currentTarget.value) }, true)}>
            {[1, 2, 3, 4, 5, 6, 8, 12].map((depth) => (
              <option key={depth} value={depth}>
                {depth}
              </option>
            ))}
          </select>
        </label>
        <button
          class={place.each ? "chip on" : "chip"}
          aria-pressed={place.each}
          title={t("by_row_tip")}
          onClick={() => go({ each: !place.each }, true)}
        >
          {t("by_row")}
        </button>
        {place.within && (
          <button class="chip on" title={place.within} onClick={() => go({ within: "" })}>
            {place.within.slice(place.within.lastIndexOf("/") + 1)} ×
          </button>
        )}
        {(place.from !== null || place.to !== null) && (
          <button class="chip" onClick={() => go({ from: null, to: null }, true)}>
            {t("whole_time")}
          </button>
        )}
        {map && map.scopes.length > 0 && <Scale map={map} each={place.each} />}
        <span class="grow" />
        <CopyMenu json={() => map} python={() => scopesCode(run?.path ?? "last", place.rank, step)} />
      </div>
      {!map ? (
        <Waiting answer={answer} />
      ) : map.steps.length === 0 || map.scopes.length === 0 ? (
        <Empty say="heat_empty" />
      ) : (
        <Cells map={map} closed={closed} setClosed={setClosed} />
      )}
    </div>
  );
}

const finiteOf = (map: HeatMap): number[] => map.values.flat().map((one) => value(one) ?? NaN);

function Scale({ map, each }: { map: HeatMap; each: boolean }) {
  const t = useTexts();
  const dark = useStore(shownTheme) === "dark";
  const scale = useMemo(() => shares(finiteOf(map), LINEAR.has(map.stat)), [map]);
  const stops = Array.from({ length: 9 }, (_, index) => ramp(index / 8, dark)).join(", ");
  return (
    <span class="scale">
      <span class="num">{each ? "" : short(scale.low)}</span>
      <span class="scalebar" style={{ background: `linear-gradient(to right, ${stops})` }} />
      <span class="num">{each ? "" : short(scale.high)}</span>
      <span class="hatched" /> {t("not_finite")}
    </span>
  );
}

interface Shown {
  place: number;
  name: string;
  depth: number;
  hasMore: boolean;
}

/** The rows that are not inside a closed scope. */
function rowsOf(map: HeatMap, closed: ReadonlySet<string>): Shown[] {
  const rows: Shown[] = [];
  let under = Infinity;
  map.scopes.forEach((name, place) => {
    const depth = map.depths[place]!;
    if (depth > under) return;
    under = closed.has(name) ? depth : Infinity;
    rows.push({ place, name, depth, hasMore: (map.depths[place + 1] ?? 0) > depth });
  });
  return rows;
}

/** The share of a number among those it is compared with: all, or those of its row. */
function scaleOf(map: HeatMap, each: boolean): (row: number, found: number) => number {
  const linear = LINEAR.has(map.stat);
  if (!each) {
    const all = shares(finiteOf(map), linear);
    return (_, found) => all.share(found);
  }
  const rows = map.values.map((row) =>
    shares(
      row.map((one) => value(one) ?? NaN),
      linear,
      LEAST_SPAN,
    ),
  );
  return (row, found) => rows[row]!.share(found);
}

function Cells({
  map,
  closed,
  setClosed,
}: {
  map: HeatMap;
  closed: ReadonlySet<string>;
  setClosed: (next: ReadonlySet<string>) => void;
}) {
  const t = useTexts();
  const { place, step } = useLooking();
  const [box, width, height] = useSize();
  const [top, setTop] = useState(0);
  const [over, setOver] = useState<[number, number] | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const look = useStore(shownTheme);
  const rows = useMemo(() => rowsOf(map, closed), [map, closed]);
  const scale = useMemo(() => scaleOf(map, place.each), [map, place.each]);
  const node = useAnswer<NodeDetails>(
    place.node === null ? null : aboutStep(place, `nodes/${place.node}`, { pass: place.pass || null }),
    false,
  );
  const scope = place.node !== null && node.data?.id === place.node ? node.data.scope : (place.scope ?? "");
  const chosen = rows.findLastIndex((row) => scope === row.name || scope.startsWith(`${row.name}/`));
  const room = Math.max(10, width - LABELS - 12);
  const cell = Math.max(LEAST_COLUMN, Math.min(28, room / map.steps.length));
  const shownHeight = Math.max(0, height - AXIS);
  const [first, last] = [Math.floor(top / ROW), Math.min(rows.length, Math.ceil((top + shownHeight) / ROW))];
  const now = place.step ?? step;
  const column = now === null ? -1 : map.steps.findLastIndex((one) => one <= now);

  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || room < 20 || shownHeight < 1) return;
    const ratio = sharpness(element);
    element.width = room * ratio;
    element.height = shownHeight * ratio;
    const brush = element.getContext("2d")!;
    brush.scale(ratio, ratio);
    const dark = look === "dark";
    const bad = hatch(brush, colour("bad"), colour("bad-ground"));
    for (let index = first; index < last; index++) {
      const row = rows[index]!;
      const y = index * ROW - top;
      map.steps.forEach((_, place) => {
        const found = value(map.values[row.place]![place]);
        const isBad = map.bad[row.place]![place]! > 0;
        if (found === null && !isBad) return;
        brush.fillStyle = isBad ? bad : ramp(scale(row.place, found!), dark);
        brush.fillRect(place * cell, y + 1, Math.max(1, cell - (cell > 5 ? 1 : 0)), ROW - 2);
      });
    }
    if (column >= 0) {
      brush.strokeStyle = colour("ink");
      brush.lineWidth = 1.5;
      brush.strokeRect(column * cell - 0.5, -4, Math.max(2, cell), Math.min(shownHeight, rows.length * ROW - top) + 4);
    }
    if (chosen >= first && chosen < last) {
      brush.strokeStyle = colour("accent");
      brush.strokeRect(0.75, chosen * ROW - top + 0.5, map.steps.length * cell - 1, ROW - 1);
    }
  }, [map, rows, scale, room, shownHeight, top, look, column, chosen, cell]);

  const cellAt = (event: MouseEvent): [number, number] | null => {
    const at = pointIn(event, canvas.current!);
    const [x, y] = [Math.floor(at.x / cell), Math.floor((at.y + top) / ROW)];
    return x >= 0 && x < map.steps.length && y >= 0 && y < rows.length ? [x, y] : null;
  };
  const choose = (event: MouseEvent): void => {
    const at = cellAt(event);
    if (at) void open(map.steps[at[0]]!, rows[at[1]]!.name);
  };
  /** The worst node of a scope in a step: with a hit, else not finite, else the largest. */
  const open = async (at: number, name: string): Promise<void> => {
    const list = await ask<NodeList>(aboutRank(place, "nodes", { scope: name, step: at, count: 1000 }));
    const size = (one: NodeList["nodes"][number]): number =>
      Math.max(Math.abs(Number(one.min ?? 0)), Math.abs(Number(one.max ?? 0))) || 0;
    const bad = list.nodes.find((one) => Number(one.nan) || Number(one.inf));
    const best =
      bad ??
      list.nodes.reduce<NodeList["nodes"][number] | undefined>(
        (old, one) => (!old || size(one) > size(old) ? one : old),
        undefined,
      );
    if (best) select(best.id, { step: at });
    else go({ step: at, scope: name });
  };
  const zoom = (event: WheelEvent): void => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const at = cellAt(event)?.[0] ?? Math.floor(map.steps.length / 2);
    const by = event.deltaY < 0 ? 0.7 : 1.6;
    const size = Math.max(8, Math.round(map.steps.length * by));
    const start = Math.max(0, Math.round(at - (at / map.steps.length) * size));
    const end = Math.min(map.steps.length - 1, start + size);
    go(
      by > 1 && start === 0 && end === map.steps.length - 1
        ? { from: null, to: null }
        : { from: map.steps[start]!, to: map.steps[end]! },
      true,
    );
  };
  useEffect(() => {
    const element = canvas.current!;
    element.addEventListener("wheel", zoom, { passive: false });
    return () => element.removeEventListener("wheel", zoom);
  });
  const toggle = (name: string): void => {
    const next = new Set(closed);
    if (!next.delete(name)) next.add(name);
    setClosed(next);
  };
  const every = Math.max(1, Math.ceil(44 / cell));
  return (
    <div class="heatbox" ref={box}>
      <div class="heataxis" style={{ paddingLeft: `${LABELS}px` }}>
        {map.steps.map((one, index) =>
          index % every === 0 ? (
            <span key={one} class="num" style={{ left: `${LABELS + index * cell}px` }}>
              {one}
            </span>
          ) : null,
        )}
      </div>
      <div class="scroll heatscroll" onScroll={(e) => setTop(e.currentTarget.scrollTop)}>
        <div style={{ height: `${rows.length * ROW}px`, position: "relative" }}>
          {rows.slice(first, last).map((row, index) => (
            <div
              key={row.name}
              class={first + index === chosen ? "heatlabel chosen" : "heatlabel"}
              data-scope={row.name}
              title={row.name}
              style={{
                top: `${(first + index) * ROW}px`,
                paddingLeft: `${row.depth * 10 + 4}px`,
                width: `${LABELS}px`,
                height: `${ROW}px`,
              }}
              onClick={() =>
                row.hasMore || closed.has(row.name) ? toggle(row.name) : go({ scope: row.name })
              }
              onDblClick={() => go({ within: row.name })}
            >
              <span class="twist">{row.hasMore ? "▾" : closed.has(row.name) ? "▸" : ""}</span>
              <span class="clip">{row.name.slice(row.name.lastIndexOf("/") + 1)}</span>
            </div>
          ))}
          <canvas
            ref={canvas}
            class="heatcanvas"
            title={t("zoom_tip")}
            style={{ left: `${LABELS}px`, width: `${room}px`, height: `${shownHeight}px` }}
            onClick={choose}
            onMouseMove={(e) => setOver(cellAt(e))}
            onMouseLeave={() => setOver(null)}
          />
        </div>
      </div>
      <div class="heatnote num">
        {over && rows[over[1]] && (
          <>
            {t("step")} {map.steps[over[0]]} · {rows[over[1]]!.name} · {named("stat", map.stat)}{" "}
            {short(map.values[rows[over[1]]!.place]![over[0]])}
            {map.bad[rows[over[1]]!.place]![over[0]]! > 0 && <span class="bad"> {t("not_finite")}</span>}
          </>
        )}
      </div>
    </div>
  );
}
