// Lays out one scope, away from the page.
import dagre from "@dagrejs/dagre";

export interface LayoutBox {
  id: string;
  width: number;
  height: number;
}
export interface LayoutTask {
  task: number;
  boxes: LayoutBox[];
  edges: { start: string; end: string }[];
}
export interface LaidOut {
  task: number;
  width: number;
  height: number;
  boxes: Record<string, { x: number; y: number }>;
  edges: { x: number; y: number }[][];
}

self.onmessage = (event: MessageEvent<LayoutTask>) => {
  const { task, boxes, edges } = event.data;
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 34, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const box of boxes) graph.setNode(box.id, { width: box.width, height: box.height });
  for (const edge of edges) graph.setEdge(edge.start, edge.end);
  dagre.layout(graph);
  const places: LaidOut["boxes"] = {};
  for (const box of boxes) {
    const at = graph.node(box.id) as { x: number; y: number };
    places[box.id] = { x: at.x, y: at.y };
  }
  const size = graph.graph() as { width?: number; height?: number };
  const lines = edges.map(
    (edge) => (graph.edge(edge.start, edge.end) as { points?: { x: number; y: number }[] }).points ?? [],
  );
  const done: LaidOut = {
    task,
    width: size.width ?? 0,
    height: size.height ?? 0,
    boxes: places,
    edges: lines,
  };
  self.postMessage(done);
};
