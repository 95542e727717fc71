// The drawing of a laid-out graph: zoom, pan, fit, and the paths of what is selected.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Box, Edge } from "../api/types";
import { short, value } from "../format";
import { useSize } from "../parts/width";
import { useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { useStore } from "../state/store";
import { shownTheme } from "../state/theme";
import { useTexts } from "../texts";
import { ramp, shares } from "./colours";
import { GraphMenu, type MenuPlace } from "./graph_menu";
import { BOX_HEIGHT, boxDetail, boxWidth, type Drawn } from "./layout";

interface View {
  x: number;
  y: number;
  zoom: number;
}
const MAP = { width: 150, height: 110 };

export function Drawing({ drawn, tools }: { drawn: Drawn; tools: ComponentChildren }) {
  const t = useTexts();
  const { place } = useLooking();
  const { graph, layout } = drawn;
  const [box, width, height] = useSize();
  const [view, setView] = useState<View>({ x: 0, y: 0, zoom: 1 });
  const [over, setOver] = useState<string | null>(null);
  const [menu, setMenu] = useState<MenuPlace | null>(null);
  const chosen = graph.boxes.find((one) => one.node !== null && one.node === place.node)?.id ?? null;
  const fit = (): void => {
    if (!width) return;
    const zoom = Math.min(1.25, width / layout.width, height / layout.height);
    const readable = Math.max(zoom, 0.9);
    const at = chosen && zoom < readable ? layout.boxes[chosen] : undefined;
    const top = at ? height / 2 - at.y * readable : Math.max(0, (height - layout.height * readable) / 2);
    const left = at ? width / 2 - at.x * readable : (width - layout.width * readable) / 2;
    setView({ x: left, y: top, zoom: readable });
  };
  const whole = (): void => {
    const zoom = Math.min(1.25, width / layout.width, height / layout.height);
    setView({ x: (width - layout.width * zoom) / 2, y: (height - layout.height * zoom) / 2, zoom });
  };
  useEffect(fit, [layout, width > 0, height > 0]);
  const toChosen = (): void => {
    const at = chosen ? layout.boxes[chosen] : undefined;
    if (at) setView((old) => ({ ...old, x: width / 2 - at.x * old.zoom, y: height / 2 - at.y * old.zoom }));
    else go({ scope: null });
  };
  /** Bring a box into sight that the keyboard has reached. */
  const show = (id: string): void => {
    const at = layout.boxes[id];
    if (!at) return;
    setView((old) => {
      const [x, y] = [old.x + at.x * old.zoom, old.y + at.y * old.zoom];
      const seen = x > 0 && x < width && y > 0 && y < height;
      return seen ? old : { ...old, x: width / 2 - at.x * old.zoom, y: height / 2 - at.y * old.zoom };
    });
  };
  useZoom(box, setView);
  const lit = useMemo(() => neighbours(graph.edges, over ?? chosen), [graph.edges, over, chosen]);
  const path = useMemo(() => pathThrough(graph.edges, over ?? chosen), [graph.edges, over, chosen]);
  const openMenu = (event: MouseEvent): void => {
    const id = (event.target as Element).closest<SVGElement>(".gbox")?.dataset.box;
    const found = graph.boxes.find((one) => one.id === id);
    if (!found) return;
    event.preventDefault();
    const rect = box.current!.getBoundingClientRect();
    setMenu({ box: found, x: event.clientX - rect.left, y: event.clientY - rect.top });
  };
  return (
    <div class="graphbox" ref={box}>
      <svg width={width} height={height} onContextMenu={openMenu} onPointerDown={(e) => drag(e, view, setView)}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" class="arrow" /></marker>
        </defs>
        <g transform={`translate(${view.x} ${view.y}) scale(${view.zoom})`}>
          {graph.edges.map((edge, index) => <Line key={`${edge.start}→${edge.end}`} points={layout.edges[index] ?? []} lit={lit.has(`${edge.start}→${edge.end}`)} path={path.has(edge)} />)}
          <Boxes boxes={graph.boxes} layout={layout} chosen={chosen} onOver={setOver} onFocus={show} />
          {graph.edges.map((edge, index) => lit.has(`${edge.start}→${edge.end}`) && <Label key={`${edge.start}→${edge.end}`} edge={edge} points={layout.edges[index] ?? []} atStart={edge.start === (over ?? chosen)} centre={layout.boxes[(over ?? chosen)!]?.x ?? 0} />)}
        </g>
      </svg>
      {menu && <GraphMenu key={menu.box.id} at={menu} onClose={() => setMenu(null)} />}
      <div class="graphtools">
        {tools}
        <button class="chip" title={t("graph_tip")} onClick={whole}>{t("fit")}</button>
        {place.node !== null && <button class="chip" onClick={toChosen}>{t("to_selected")}</button>}
      </div>
      <MiniMap drawn={drawn} view={view} width={width} height={height} chosen={chosen} onMove={(x, y) => setView((old) => ({ ...old, x: width / 2 - x * old.zoom, y: height / 2 - y * old.zoom }))} />
    </div>
  );
}

/** The edges at a box. */
function neighbours(edges: Edge[], id: string | null): Set<string> {
  return new Set(id === null ? [] : edges.filter((edge) => edge.start === id || edge.end === id).map((edge) => `${edge.start}→${edge.end}`));
}

/** The edges that lead to a box or away from it, at any distance. */
function pathThrough(edges: Edge[], id: string | null): Set<Edge> {
  const found = new Set<Edge>();
  if (id === null) return found;
  const follow = (from: "start" | "end", to: "start" | "end"): void => {
    const byBox = Map.groupBy(edges, (edge) => edge[from]);
    const seen = new Set([id]);
    for (const box of seen) {
      for (const edge of byBox.get(box) ?? []) {
        found.add(edge);
        seen.add(edge[to]);
      }
    }
  };
  follow("start", "end");
  follow("end", "start");
  return found;
}

function drag(event: PointerEvent, view: View, setView: (next: View) => void): void {
  if ((event.target as Element).closest(".gbox")) return;
  const svg = event.currentTarget as SVGElement;
  svg.setPointerCapture(event.pointerId);
  const [x, y] = [event.clientX, event.clientY];
  const move = (moved: PointerEvent): void => setView({ ...view, x: view.x + moved.clientX - x, y: view.y + moved.clientY - y });
  svg.addEventListener("pointermove", move);
  svg.addEventListener("pointerup", () => svg.removeEventListener("pointermove", move), { once: true });
}

function useZoom(box: preact.RefObject<HTMLDivElement | null>, setView: (change: (old: View) => View) => void): void {
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const zoom = (event: WheelEvent): void => {
      event.preventDefault();
      const rect = element.getBoundingClientRect();
      const [x, y] = [event.clientX - rect.left, event.clientY - rect.top];
      setView((old) => {
        const next = Math.min(3, Math.max(0.08, old.zoom * Math.exp(-event.deltaY / 500)));
        const by = next / old.zoom;
        return { zoom: next, x: x - (x - old.x) * by, y: y - (y - old.y) * by };
      });
    };
    element.addEventListener("wheel", zoom, { passive: false });
    return () => element.removeEventListener("wheel", zoom);
  }, []);
}

function Line({ points, lit, path }: { points: { x: number; y: number }[]; lit: boolean; path: boolean }) {
  if (points.length < 2) return null;
  return <path class={lit ? "edge lit" : path ? "edge path" : "edge"} d={curve(points)} marker-end="url(#arrow)" />;
}

/** What flows, written beside the end of the edge where there are no boxes. */
function Label({ edge, points, atStart, centre }: { edge: Edge; points: { x: number; y: number }[]; atStart: boolean; centre: number }) {
  const [near, next] = atStart ? points : points.toReversed();
  if (!near || !next) return null;
  const share = Math.min(1, 15 / Math.max(1, Math.abs(next.y - near.y)));
  const [x, y] = [near.x + (next.x - near.x) * share, near.y + (next.y - near.y) * share];
  return <text class="edgelabel" x={x < centre ? x - 6 : x + 6} y={y + 4} text-anchor={x < centre ? "end" : "start"}>{edge.label || (edge.values > 1 ? `×${edge.values}` : "")}</text>;
}

/** A line through points, rounded. */
function curve(points: { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  let path = `M${first!.x.toFixed(1)} ${first!.y.toFixed(1)}`;
  rest.forEach((point, index) => {
    const next = rest[index + 1];
    const end = next ? { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 } : point;
    path += `Q${point.x.toFixed(1)} ${point.y.toFixed(1)} ${end.x.toFixed(1)} ${end.y.toFixed(1)}`;
  });
  return path;
}

interface BoxesProps {
  boxes: Box[];
  layout: Drawn["layout"];
  chosen: string | null;
  onOver: (id: string | null) => void;
  onFocus: (id: string) => void;
}

function Boxes({ boxes, layout, chosen, onOver, onFocus }: BoxesProps) {
  const { place } = useLooking();
  const dark = useStore(shownTheme) === "dark";
  const scale = useMemo(() => shares(boxes.map((box) => Math.abs(value(box.max) ?? NaN)), false), [boxes]);
  return (
    <>
      {boxes.map((box) => {
        const at = layout.boxes[box.id];
        if (!at) return null;
        const share = scale.share(Math.abs(value(box.max) ?? 0));
        const fill = place.colour === "max" && box.max !== null && !box.bad ? ramp(share, dark) : undefined;
        const strong = fill !== undefined && (dark ? share > 0.72 : share > 0.55);
        return <BoxShape key={box.id} box={box} x={at.x} y={at.y} fill={fill} strong={strong} mode={place.colour} chosen={box.id === chosen} onOver={onOver} onFocus={onFocus} />;
      })}
    </>
  );
}

interface BoxProps {
  box: Box;
  x: number;
  y: number;
  fill: string | undefined;
  strong: boolean;
  mode: string;
  chosen: boolean;
  onOver: (id: string | null) => void;
  onFocus: (id: string) => void;
}

function BoxShape({ box, x, y, fill, strong, mode, chosen, onOver, onFocus }: BoxProps) {
  const width = boxWidth(box);
  const letters = Math.floor((width - 22) / 7);
  const wrong = (mode === "bad" || mode === "max" || mode === "phase") && box.bad ? "wrong" : mode === "hits" && box.hits ? "wrong" : "";
  const style = ["gbox", `g-${box.kind}`, mode === "phase" ? `g-${box.phase}` : "", wrong, chosen ? "chosen" : "", strong ? "strong" : "", fill ? "filled" : ""].join(" ");
  const open = (): void => {
    if (box.kind === "scope" || box.kind === "elsewhere") go({ scope: box.scope });
  };
  const choose = (): void => {
    if (box.node !== null) select(box.node, { scope: box.scope });
  };
  return (
    <g class={style} transform={`translate(${x - width / 2} ${y - BOX_HEIGHT / 2})`} data-box={box.id} tabIndex={0} role="button"
      onClick={choose} onDblClick={open} onKeyDown={(e) => e.key === "Enter" && (choose(), open())}
      onFocus={() => onFocus(box.id)} onPointerEnter={() => onOver(box.id)} onPointerLeave={() => onOver(null)}>
      <title>{`${box.detail}\n${box.scope}\n${box.nodes} · max ${short(box.max)}${box.bad ? ` · ${box.nan} NaN, ${box.inf} Inf` : ""}`.slice(0, 2000)}</title>
      <rect width={width} height={BOX_HEIGHT} rx={box.kind === "outside" ? 18 : 5} style={fill ? { fill } : undefined} />
      <text x={10} y={17} class="glabel">{cut(box.label, letters)}</text>
      <text x={10} y={32} class="gdetail">{cut(boxDetail(box), Math.floor(letters * 1.22))}</text>
      {(box.kind === "scope" || box.kind === "elsewhere") && <text x={width - 14} y={17} class="gdetail" onClick={(e) => (e.stopPropagation(), open())}>⊞</text>}
      {box.hits > 0 && <circle class="ghit" cx={width - 3} cy={3} r={4.5} />}
    </g>
  );
}

function cut(text: string, letters: number): string {
  if (text.length <= letters) return text;
  const tail = Math.floor(letters * 0.4);
  return `${text.slice(0, Math.max(1, letters - tail - 1))}…${text.slice(-tail)}`;
}

interface MiniProps {
  drawn: Drawn;
  view: View;
  width: number;
  height: number;
  chosen: string | null;
  onMove: (x: number, y: number) => void;
}

function MiniMap({ drawn, view, width, height, chosen, onMove }: MiniProps) {
  const { layout, graph } = drawn;
  const zoom = Math.min(MAP.width / layout.width, MAP.height / layout.height);
  const seen = { x: -view.x / view.zoom, y: -view.y / view.zoom, width: width / view.zoom, height: height / view.zoom };
  if (seen.x <= 0 && seen.y <= 0 && seen.x + seen.width >= layout.width && seen.y + seen.height >= layout.height) return null;
  const move = (event: PointerEvent): void => {
    if (event.type === "pointermove" && !event.buttons) return;
    const rect = (event.currentTarget as Element).getBoundingClientRect();
    onMove((event.clientX - rect.left) / zoom, (event.clientY - rect.top) / zoom);
  };
  return (
    <svg class="minimap" width={layout.width * zoom} height={layout.height * zoom} onPointerDown={move} onPointerMove={move}>
      {graph.boxes.map((box) => {
        const at = layout.boxes[box.id];
        return at && <rect key={box.id} class={box.bad ? "wrong" : box.id === chosen ? "chosen" : ""} x={at.x * zoom - 3} y={at.y * zoom - 1.5} width={6} height={3} />;
      })}
      <rect class="seen" x={seen.x * zoom} y={seen.y * zoom} width={seen.width * zoom} height={seen.height * zoom} />
    </svg>
  );
}
