// The drawing of a laid-out graph: zoom, pan, fit, and the paths of what is selected.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Box, Edge, NodePath } from "../api/types";
import { pointIn } from "../parts/screen";
import { useSize } from "../parts/width";
import { useLooking } from "../state/looking";
import { go } from "../state/place";
import { useTexts } from "../texts";
import { GraphMenu, type MenuPlace } from "./graph_menu";
import { Boxes } from "./graph_boxes";
import { GraphLegend } from "./graph_legend";
import { MiniMap, type View } from "./graph_minimap";
import type { Drawn } from "./layout";

/** Room above the drawing, and below it for the legend. */
const ABOVE = 8;
const BELOW = 34;
/** Room for the list of a path, beside the drawing. */
const LIST = 266;

interface Props {
  drawn: Drawn;
  tools: ComponentChildren;
  /** What to show the way of, through whichever boxes it goes. */
  path: NodePath | undefined;
  /** The scope of the selected node, once it is known. */
  within: string | undefined;
  children: ComponentChildren;
}

export function Drawing({ drawn, tools, path: way, within, children }: Props) {
  const t = useTexts();
  const { place } = useLooking();
  const { graph, layout } = drawn;
  const [box, width, height] = useSize();
  const [view, setView] = useState<View>({ x: 0, y: 0, zoom: 1 });
  const [over, setOver] = useState<string | null>(null);
  const [menu, setMenu] = useState<MenuPlace | null>(null);
  const chosen = boxOf(graph.boxes, place.node, within);
  const beside = way ? Math.min(LIST, width / 2) : 0;
  const middle = (width + beside) / 2;
  const fit = (): void => {
    if (!width) return;
    const zoom = Math.min(1.25, (width - beside) / layout.width, (height - BELOW) / layout.height);
    const readable = Math.max(zoom, 0.9);
    const at = chosen && zoom < readable ? layout.boxes[chosen] : undefined;
    const top = at ? height / 2 - at.y * readable : Math.max(ABOVE, (height - BELOW - layout.height * readable) / 2);
    const left = middle - (at ? at.x : layout.width / 2) * readable;
    setView({ x: left, y: top, zoom: readable });
  };
  const whole = (): void => {
    const zoom = Math.min(1.25, (width - beside) / layout.width, (height - BELOW) / layout.height);
    setView({ x: middle - (layout.width * zoom) / 2, y: (height - BELOW - layout.height * zoom) / 2, zoom });
  };
  useEffect(fit, [layout, width > 0, height > 0, beside > 0]);
  const toChosen = (): void => {
    const isOpen = graph.boxes.some((one) => one.id === chosen && one.node !== null);
    const at = chosen && isOpen ? layout.boxes[chosen] : undefined;
    if (at) setView((old) => ({ ...old, x: middle - at.x * old.zoom, y: height / 2 - at.y * old.zoom }));
    else go({ scope: null });
  };
  /** Bring a box into sight that the keyboard has reached. */
  const show = (id: string): void => {
    const at = layout.boxes[id];
    if (!at) return;
    setView((old) => {
      const [x, y] = [old.x + at.x * old.zoom, old.y + at.y * old.zoom];
      const seen = x > beside && x < width && y > 0 && y < height;
      return seen ? old : { ...old, x: middle - at.x * old.zoom, y: height / 2 - at.y * old.zoom };
    });
  };
  useZoom(box, setView);
  const lit = useMemo(() => neighbours(graph.edges, over ?? chosen), [graph.edges, over, chosen]);
  const path = useMemo(() => pathThrough(graph.edges, over ?? chosen), [graph.edges, over, chosen]);
  const trail = useMemo(() => new Set(way?.edges.map(keyOf)), [way]);
  const onPath = useMemo(
    () => (way?.boxes.length && !over ? new Set(way.boxes) : boxesOn(path, over ?? chosen)),
    [path, way, over],
  );
  useEffect(() => {
    if (chosen) show(chosen);
  }, [chosen]);
  const openMenu = (event: MouseEvent): void => {
    const id = (event.target as Element).closest<SVGElement>(".gbox")?.dataset.box;
    const found = graph.boxes.find((one) => one.id === id);
    if (!found) return;
    event.preventDefault();
    setMenu({ box: found, ...pointIn(event, box.current!) });
  };
  return (
    <>
      <div class="graphtools">
        {tools}
        <button class="chip" title={t("graph_tip")} onClick={whole}>
          {t("fit")}
        </button>
        {place.node !== null && (
          <button class="chip" onClick={toChosen}>
            {t("to_selected")}
          </button>
        )}
      </div>
      <div class="graphbox" ref={box}>
        <svg
          width={width}
          height={height}
          onContextMenu={openMenu}
          onPointerDown={(e) => drag(e, view, setView)}
        >
          <defs>
            <marker
              id="arrow"
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="6"
              markerHeight="6"
              orient="auto-start-reverse"
            >
              <path d="M0 0 8 4 0 8z" class="arrow" />
            </marker>
          </defs>
          <g transform={`translate(${view.x} ${view.y}) scale(${view.zoom})`}>
            {graph.edges.map((edge, index) => (
              <Line
                key={keyOf(edge)}
                points={layout.edges[index] ?? []}
                style={edgeStyle(edge, lit, path, trail)}
              />
            ))}
            <Leaps drawn={drawn} trail={way?.edges ?? []} />
            <Boxes
              boxes={graph.boxes}
              layout={layout}
              chosen={chosen}
              onPath={onPath}
              onOver={setOver}
              onFocus={show}
            />
            {graph.edges.map(
              (edge, index) =>
                lit.has(keyOf(edge)) && (
                  <Label
                    key={keyOf(edge)}
                    edge={edge}
                    points={layout.edges[index] ?? []}
                    atStart={edge.start === (over ?? chosen)}
                    centre={layout.boxes[(over ?? chosen)!]?.x ?? 0}
                  />
                ),
            )}
          </g>
        </svg>
        {menu && <GraphMenu key={menu.box.id} at={menu} onClose={() => setMenu(null)} />}
        {children}
        <GraphLegend boxes={graph.boxes} />
        <MiniMap
          drawn={drawn}
          view={view}
          width={width}
          height={height}
          chosen={chosen}
          onMove={(x, y) =>
            setView((old) => ({ ...old, x: width / 2 - x * old.zoom, y: height / 2 - y * old.zoom }))
          }
        />
      </div>
    </>
  );
}

/** The box of a node, or the closed scope that it lies in. */
function boxOf(boxes: Box[], node: number | null, scope: string | undefined): string | null {
  if (node === null) return null;
  const own = boxes.find((one) => one.node === node);
  const around = (one: Box): boolean =>
    one.kind === "scope" && (scope === one.scope || (scope?.startsWith(`${one.scope}/`) ?? false));
  return (own ?? boxes.find(around))?.id ?? null;
}

const keyOf = (edge: { start: string; end: string }): string => `${edge.start}→${edge.end}`;

function edgeStyle(edge: Edge, lit: Set<string>, path: Set<Edge>, trail: Set<string>): string {
  if (trail.has(keyOf(edge))) return "trail";
  if (lit.has(keyOf(edge))) return "lit";
  return path.has(edge) && !trail.size ? "path" : "";
}

/** Where a path goes on without an edge here: to a gradient, or through what is not drawn. */
function Leaps({ drawn, trail }: { drawn: Drawn; trail: { start: string; end: string }[] }) {
  const { graph, layout } = drawn;
  const known = useMemo(() => new Set(graph.edges.map(keyOf)), [graph.edges]);
  return (
    <>
      {trail
        .filter((leap) => !known.has(keyOf(leap)))
        .map((leap) => {
          const [from, to] = [layout.boxes[leap.start], layout.boxes[leap.end]];
          return (
            from &&
            to && (
              <path
                key={keyOf(leap)}
                class="edge trail leap"
                d={`M${from.x} ${from.y}L${to.x} ${to.y}`}
                marker-end="url(#arrow)"
              />
            )
          );
        })}
    </>
  );
}

/** The edges at a box. */
function neighbours(edges: Edge[], id: string | null): Set<string> {
  return new Set(id === null ? [] : edges.filter((edge) => edge.start === id || edge.end === id).map(keyOf));
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

/** The boxes on a path; null where there is none, since then none stands out. */
function boxesOn(path: Set<Edge>, id: string | null): Set<string> | null {
  if (id === null) return null;
  return new Set([id, ...[...path].flatMap((edge) => [edge.start, edge.end])]);
}

function drag(event: PointerEvent, view: View, setView: (next: View) => void): void {
  if ((event.target as Element).closest(".gbox")) return;
  const svg = event.currentTarget as SVGElement;
  svg.setPointerCapture(event.pointerId);
  const from = pointIn(event, svg);
  const move = (moved: PointerEvent): void => {
    const at = pointIn(moved, svg);
    setView({ ...view, x: view.x + at.x - from.x, y: view.y + at.y - from.y });
  };
  svg.addEventListener("pointermove", move);
  svg.addEventListener("pointerup", () => svg.removeEventListener("pointermove", move), { once: true });
}

function useZoom(
  box: preact.RefObject<HTMLDivElement | null>,
  setView: (change: (old: View) => View) => void,
): void {
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const zoom = (event: WheelEvent): void => {
      event.preventDefault();
      const { x, y } = pointIn(event, element);
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

function Line({ points, style }: { points: { x: number; y: number }[]; style: string }) {
  if (points.length < 2) return null;
  return <path class={`edge ${style}`} d={curve(points)} marker-end="url(#arrow)" />;
}

/** What flows, written beside the end of the edge where there are no boxes. */
function Label({
  edge,
  points,
  atStart,
  centre,
}: {
  edge: Edge;
  points: { x: number; y: number }[];
  atStart: boolean;
  centre: number;
}) {
  const [near, next] = atStart ? points : points.toReversed();
  if (!near || !next) return null;
  const share = Math.min(1, 15 / Math.max(1, Math.abs(next.y - near.y)));
  const [x, y] = [near.x + (next.x - near.x) * share, near.y + (next.y - near.y) * share];
  return (
    <text
      class="edgelabel"
      x={x < centre ? x - 6 : x + 6}
      y={y + 4}
      text-anchor={x < centre ? "end" : "start"}
    >
      {edge.label || (edge.values > 1 ? `×${edge.values}` : "")}
    </text>
  );
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
