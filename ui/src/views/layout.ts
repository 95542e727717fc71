// The layout of a graph, from the worker; one drawing is awaited at a time.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Box, ScopeGraph } from "../api/types";
import { short } from "../format";
import type { LaidOut, LayoutTask } from "./layout_worker";

export const BOX_HEIGHT = 40;

const NUMBER = " · max 12.345";

const placeOf = (box: Box): string =>
  box.kind === "node" ? box.detail : box.nodes ? `${box.nodes} ops` : "";

/** The second line of a box. */
export function boxDetail(box: Box): string {
  if (box.kind === "outside") return box.detail;
  const place = placeOf(box);
  if (box.bad) return [Number(box.nan) ? "NaN" : "Inf", place].filter(Boolean).join(" · ");
  return [place, box.max === null ? "" : `max ${short(box.max)}`].filter(Boolean).join(" · ");
}

/** How wide a box is; its numbers may change, and must not make it wider than it was laid out. */
export function boxWidth(box: Box): number {
  const detail = box.kind === "outside" ? box.detail.length : placeOf(box).length + NUMBER.length;
  const letters = Math.min(30, Math.max(box.label.length, Math.min(detail, 32) * 0.84));
  const mark = box.kind === "scope" || box.kind === "elsewhere" ? 16 : 0;
  return Math.max(84, letters * 7.3 + 22 + mark);
}

export interface Drawn {
  graph: ScopeGraph;
  layout: LaidOut;
}

/** What the boxes and edges are, without their numbers: only that needs a new layout. */
const shapeOf = (graph: ScopeGraph): string =>
  JSON.stringify([graph.boxes.map((box) => box.id), graph.edges.map((edge) => [edge.start, edge.end])]);

export function useLayout(graph: ScopeGraph | undefined): Drawn | undefined {
  const worker = useRef<Worker | null>(null);
  const asked = useRef({ task: 0, shape: "", graph: undefined as ScopeGraph | undefined });
  const [drawn, setDrawn] = useState<{ shape: string; drawn: Drawn }>();
  useEffect(() => {
    worker.current = new Worker(new URL("./layout_worker.ts", import.meta.url), { type: "module" });
    worker.current.onmessage = (event: MessageEvent<LaidOut>) => {
      const now = asked.current;
      if (event.data.task === now.task && now.graph)
        setDrawn({ shape: now.shape, drawn: { graph: now.graph, layout: event.data } });
    };
    return () => worker.current?.terminate();
  }, []);
  useEffect(() => {
    if (!graph) return;
    const shape = shapeOf(graph);
    if (drawn && drawn.shape === shape) {
      setDrawn({ shape, drawn: { graph, layout: drawn.drawn.layout } });
      return;
    }
    asked.current = { task: asked.current.task + 1, shape, graph };
    const task: LayoutTask = {
      task: asked.current.task,
      boxes: graph.boxes.map((box) => ({ id: box.id, width: boxWidth(box), height: BOX_HEIGHT })),
      edges: graph.edges.map(({ start, end }) => ({ start, end })),
    };
    worker.current?.postMessage(task);
  }, [graph]);
  return drawn?.drawn;
}
