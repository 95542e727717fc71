// The whole graph, small, with what is in sight.
import { pointIn } from "../parts/screen";
import type { Drawn } from "./layout";

/** Where the drawing lies behind its window. */
export interface View {
  x: number;
  y: number;
  zoom: number;
}
const MAP = { width: 150, height: 110 };

interface MiniProps {
  drawn: Drawn;
  view: View;
  width: number;
  height: number;
  chosen: string | null;
  onMove: (x: number, y: number) => void;
}

export function MiniMap({ drawn, view, width, height, chosen, onMove }: MiniProps) {
  const { layout, graph } = drawn;
  const zoom = Math.min(MAP.width / layout.width, MAP.height / layout.height);
  const seen = {
    x: -view.x / view.zoom,
    y: -view.y / view.zoom,
    width: width / view.zoom,
    height: height / view.zoom,
  };
  if (
    seen.x <= 0 &&
    seen.y <= 0 &&
    seen.x + seen.width >= layout.width &&
    seen.y + seen.height >= layout.height
  )
    return null;
  const move = (event: PointerEvent): void => {
    if (event.type === "pointermove" && !event.buttons) return;
    const at = pointIn(event, event.currentTarget as Element);
    onMove(at.x / zoom, at.y / zoom);
  };
  return (
    <svg
      class="minimap"
      width={layout.width * zoom}
      height={layout.height * zoom}
      onPointerDown={move}
      onPointerMove={move}
    >
      {graph.boxes.map((box) => {
        const at = layout.boxes[box.id];
        return (
          at && (
            <rect
              key={box.id}
              class={box.bad ? "wrong" : box.id === chosen ? "chosen" : ""}
              x={at.x * zoom - 3}
              y={at.y * zoom - 1.5}
              width={6}
              height={3}
            />
          )
        );
      })}
      <rect
        class="seen"
        x={seen.x * zoom}
        y={seen.y * zoom}
        width={seen.width * zoom}
        height={seen.height * zoom}
      />
    </svg>
  );
}
