// A tensor as a heat map: hover tells the element, the wheel zooms, dragging moves.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ask as request, useAnswer } from "../api/client";
import type { Block, Layout, Spread, Tile } from "../api/types";
import { count, full, short, value } from "../format";
import { Waiting } from "../parts/empty";
import { pointIn } from "../parts/screen";
import { useSize } from "../parts/width";
import { useStore } from "../state/store";
import { shownTheme } from "../state/theme";
import { draw } from "./heat_drawing";
import { indexOf, parseAt, placeOf, rowLabel, columnLabel } from "./layout";
import { useLatest } from "./latest";
import { Legend } from "./legend";
import { makeScale, type Scale } from "./scale";
import { change, type Asking } from "./state";
import { useTensorTexts } from "./texts";
import { useWheel } from "./wheel";
import { useWindow, zoomed, type Window } from "./window";

const MOST_ROWS = 200;
const MOST_COLUMNS = 320;
const MOST_CELLS = 48_000;
const LARGEST_PX = 30;
/** How many times as long as it is wide a cell may be, and how many pixels at least. */
const STRETCHED = 6;
const SETTLE_MS = 120;

interface Props {
  asking: Asking;
  layout: Layout;
  shape: number[];
  live: boolean;
}

export function Heat({ asking, layout, shape, live }: Props) {
  const t = useTensorTexts();
  const { state, askShown } = asking;
  const [box, boxWidth, boxHeight] = useSize();
  const [window, move] = useWindow(layout, state.window);
  const [width, height] = canvasSize(layout, boxWidth - 62, boxHeight - 24);
  const spread = useAnswer<Spread>(askShown("spread", { fold: null }), live);
  const tile = useLatest<Tile>(
    width > 0 ? askShown("tile", { ...tileQuery(window, layout, width, height) }) : null,
    live,
  );
  const scale = scaleOf(spread.data, tile.data, state.scale === "log", state.clip);
  if (spread.error) return <Waiting answer={spread} />;
  return (
    <div class="heatlook">
      <div class="heatarea" ref={box}>
        {tile.data && scale && width > 0 && (
          <Canvas
            tile={tile.data}
            scale={scale}
            window={window}
            move={move}
            width={width}
            height={height}
            layout={layout}
            shape={shape}
            asking={asking}
          />
        )}
        {tile.error && <Waiting answer={tile} />}
      </div>
      {scale && (
        <Legend scale={scale} sampled={spread.data?.sampled ?? false} tile={tile.data}>
          {state.window && (
            <button class="chip" onClick={() => change({ window: "" })}>
              {t("all")}
            </button>
          )}
        </Legend>
      )}
    </div>
  );
}

function canvasSize(layout: Layout, width: number, height: number): [number, number] {
  if (width < 40 || height < 40) return [0, 0];
  let across = Math.min(LARGEST_PX, width / layout.columns);
  let down = Math.min(LARGEST_PX, height / layout.rows);
  across = Math.min(across, Math.max(STRETCHED, down * STRETCHED));
  down = Math.min(down, Math.max(STRETCHED, across * STRETCHED));
  const clamp = (size: number, most: number): number => Math.round(Math.min(most, Math.max(24, size)));
  return [clamp(layout.columns * across, width), clamp(layout.rows * down, height)];
}

function tileQuery(window: Window, layout: Layout, width: number, height: number): Record<string, number> {
  const [top, left] = [Math.floor(window.top), Math.floor(window.left)];
  const rows = Math.min(layout.rows - top, Math.ceil(window.height) + 1);
  const columns = Math.min(layout.columns - left, Math.ceil(window.width) + 1);
  let cellRows = Math.min(rows, MOST_ROWS, Math.max(1, Math.floor(height / 2)));
  const cellColumns = Math.min(columns, MOST_COLUMNS, Math.max(1, Math.floor(width / 2)));
  cellRows = Math.min(cellRows, Math.floor(MOST_CELLS / cellColumns));
  return { top, left, height: rows, width: columns, rows: cellRows, columns: cellColumns };
}

function scaleOf(
  spread: Spread | undefined,
  tile: Tile | undefined,
  log: boolean,
  clip: boolean,
): Scale | undefined {
  if (!spread) return undefined;
  const least = value(spread.faint) ?? 0;
  const most = value(spread.clip) ?? 1;
  if (clip && most > 0) return makeScale(most, least, log);
  let largest = most;
  for (const list of [tile?.low ?? [], tile?.high ?? []])
    for (const one of list) largest = Math.max(largest, Math.abs(value(one) ?? 0));
  return makeScale(largest, least, log);
}

interface CanvasProps extends Omit<Props, "live"> {
  tile: Tile;
  scale: Scale;
  window: Window;
  move: (next: (old: Window) => Window) => void;
  width: number;
  height: number;
}

function Canvas(props: CanvasProps) {
  const t = useTensorTexts();
  const { tile, scale, window, move, width, height, layout, shape, asking } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = useStore(shownTheme) === "dark";
  const [over, setOver] = useState<{ x: number; y: number } | null>(null);
  const at = asking.state.at ? parseAt(asking.state.at, shape) : null;
  const mark = at && placeOf(layout, at);
  useLayoutEffect(() => {
    if (canvas.current) draw(canvas.current, { tile, window, scale, dark, width, height, mark });
  }, [tile, window, scale.most, scale.least, scale.log, dark, width, height, asking.state.at]);
  useWheel(canvas, (event, element) => {
    event.preventDefault();
    const rect = element.getBoundingClientRect();
    const [x, y] = [(event.clientX - rect.left) / rect.width, (event.clientY - rect.top) / rect.height];
    move((old) => zoomed(old, Math.exp(event.deltaY / 400), x, y));
  });
  const element = (x: number, y: number): { row: number; column: number } => ({
    row: Math.min(layout.rows - 1, Math.floor(window.top + (y / height) * window.height)),
    column: Math.min(layout.columns - 1, Math.floor(window.left + (x / width) * window.width)),
  });
  const place = (event: MouseEvent): { x: number; y: number } => {
    return pointIn(event, canvas.current!);
  };
  const onDown = (event: PointerEvent): void => {
    const start = place(event);
    const from = window;
    let moved = false;
    const drag = (next: PointerEvent): void => {
      const { x, y } = place(next);
      moved ||= Math.abs(x - start.x) + Math.abs(y - start.y) > 4;
      if (!moved) return;
      const left = from.left - ((x - start.x) / width) * from.width;
      const top = from.top - ((y - start.y) / height) * from.height;
      move((old) => ({ ...old, left, top }));
    };
    const end = (): void => {
      document.removeEventListener("pointermove", drag);
      if (moved || event.button !== 0) return;
      const where = place(event);
      const found = element(where.x, where.y);
      change({ at: indexOf(layout, found.row * layout.columns + found.column).join(",") });
    };
    document.addEventListener("pointermove", drag);
    document.addEventListener("pointerup", end, { once: true });
  };
  return (
    <div class="heatgrid" style={{ gridTemplateColumns: `56px ${width}px` }}>
      <span class="corner faint num" title={t("zoom_tip")}>
        {rowLabel(layout, Math.floor(window.top))}
      </span>
      <span class="columnends faint num">
        <span>{columnLabel(layout, Math.floor(window.left))}</span>
        <span>
          {columnLabel(layout, Math.min(layout.columns, Math.ceil(window.left + window.width)) - 1)}
        </span>
      </span>
      <span class="rowends faint num">
        <span />
        <span>{rowLabel(layout, Math.min(layout.rows, Math.ceil(window.top + window.height)) - 1)}</span>
      </span>
      <div class="canvasbox" style={{ width: `${width}px`, height: `${height}px` }}>
        <canvas
          ref={canvas}
          class="tensorcanvas"
          role="img"
          aria-label={t("heat")}
          style={{ width: `${width}px`, height: `${height}px` }}
          onPointerDown={onDown}
          onPointerMove={(event) => setOver(place(event))}
          onPointerLeave={() => setOver(null)}
          onDblClick={() => change({ window: "" })}
        />
        {over && <Tip at={over} element={element(over.x, over.y)} {...props} />}
      </div>
    </div>
  );
}

interface TipProps extends CanvasProps {
  at: { x: number; y: number };
  element: { row: number; column: number };
}

/** The element under the mouse; of a cell of many also their range. */
function Tip({ at, element, tile, layout, asking, width }: TipProps) {
  const t = useTensorTexts();
  const { row, column } = element;
  const exact = useElement(asking, row, column);
  const [down, across] = [tile.cell[0]!, tile.cell[1]!];
  const cell = Math.floor((row - tile.top) / down) * tile.columns + Math.floor((column - tile.left) / across);
  const bad = [
    [tile.nan[cell], "NaN"],
    [tile.posinf[cell], "+Inf"],
    [tile.neginf[cell], "−Inf"],
  ].filter(([found]) => Number(found) > 0);
  const index = indexOf(layout, row * layout.columns + column);
  return (
    <div
      class="tensortip"
      style={
        at.x > width / 2
          ? { right: `${width - at.x + 12}px`, top: `${at.y + 12}px` }
          : { left: `${at.x + 12}px`, top: `${at.y + 12}px` }
      }
    >
      <b class="num">[{index.join(", ")}]</b> <span class="num">{exact ? full(exact.elements[0]) : "…"}</span>
      {exact?.before[0] !== undefined && exact.before.length > 0 && (
        <div class="num faint">
          {short(exact.before[0])} → {short(exact.now[0])}
        </div>
      )}
      {down * across > 1 && (
        <div class="faint">
          {t("cell_of", down, across)}: {short(tile.low[cell])} … {short(tile.high[cell])}
        </div>
      )}
      {bad.map(([found, name]) => (
        <div key={name} class="bad">
          {name} × {count(found)}
        </div>
      ))}
    </div>
  );
}

/** One element, asked for when the mouse rests. */
function useElement(asking: Asking, row: number, column: number): Block | undefined {
  const path = asking.askShown("block", { top: row, left: column, height: 1, width: 1 });
  const [found, setFound] = useState<{ path: string; block: Block }>();
  useEffect(() => {
    let wanted = true;
    const timer = setTimeout(() => {
      request<Block>(path).then(
        (block) => wanted && setFound({ path, block }),
        () => undefined,
      );
    }, SETTLE_MS);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [path]);
  return found?.path === path ? found.block : undefined;
}
