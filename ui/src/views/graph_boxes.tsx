// The boxes of a graph: operators, scopes, and what comes from elsewhere.
import { useMemo } from "preact/hooks";
import type { Box } from "../api/types";
import { short } from "../format";
import { useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { useStore } from "../state/store";
import { shownTheme } from "../state/theme";
import { looksOf } from "./graph_colours";
import { BOX_HEIGHT, boxDetail, boxWidth, type Drawn } from "./layout";

interface BoxesProps {
  boxes: Box[];
  layout: Drawn["layout"];
  chosen: string | null;
  /** Those on the paths of the box that is pointed at or chosen; null when there is none. */
  onPath: Set<string> | null;
  onOver: (id: string | null) => void;
  onFocus: (id: string) => void;
}

export function Boxes({ boxes, layout, chosen, onPath, onOver, onFocus }: BoxesProps) {
  const { place } = useLooking();
  const dark = useStore(shownTheme) === "dark";
  const look = useMemo(() => looksOf(boxes, place.colour, dark), [boxes, place.colour, dark]);
  return (
    <>
      {boxes.map((box) => {
        const at = layout.boxes[box.id];
        if (!at) return null;
        const { style, fill } = look(box);
        const away = onPath && !onPath.has(box.id) ? "away" : "";
        return (
          <BoxShape
            key={box.id}
            box={box}
            x={at.x}
            y={at.y}
            fill={fill}
            style={`${style} ${box.id === chosen ? "chosen" : ""} ${away}`}
            onOver={onOver}
            onFocus={onFocus}
          />
        );
      })}
    </>
  );
}

interface BoxProps {
  box: Box;
  x: number;
  y: number;
  fill: string | undefined;
  style: string;
  onOver: (id: string | null) => void;
  onFocus: (id: string) => void;
}

function BoxShape({ box, x, y, fill, style, onOver, onFocus }: BoxProps) {
  const width = boxWidth(box);
  const letters = Math.floor((width - 22) / 7);
  const open = (): void => {
    if (box.kind === "scope" || box.kind === "elsewhere") go({ scope: box.scope });
  };
  const choose = (): void => {
    if (box.node !== null) select(box.node, { scope: box.scope });
  };
  return (
    <g
      class={`gbox g-${box.kind} ${style}`}
      transform={`translate(${x - width / 2} ${y - BOX_HEIGHT / 2})`}
      data-box={box.id}
      tabIndex={0}
      role="button"
      onClick={choose}
      onDblClick={open}
      onKeyDown={(e) => e.key === "Enter" && (choose(), open())}
      onFocus={() => onFocus(box.id)}
      onPointerEnter={() => onOver(box.id)}
      onPointerLeave={() => onOver(null)}
    >
      <title>
        {`${box.detail}\n${box.scope}\n${box.nodes} · max ${short(box.max)}${box.bad ? ` · ${box.nan} NaN, ${box.inf} Inf` : ""}`.slice(
          0,
          2000,
        )}
      </title>
      <rect
        width={width}
        height={BOX_HEIGHT}
        rx={box.kind === "outside" ? 18 : 5}
        style={fill ? { fill } : undefined}
      />
      <text x={10} y={17} class="glabel">
        {cut(box.label, letters)}
      </text>
      <text x={10} y={32} class="gdetail">
        {cut(boxDetail(box), Math.floor(letters * 1.22))}
      </text>
      {(box.kind === "scope" || box.kind === "elsewhere") && (
        <text x={width - 14} y={17} class="gdetail" onClick={(e) => (e.stopPropagation(), open())}>
          ⊞
        </text>
      )}
      {box.hits > 0 && <circle class="ghit" cx={width - 3} cy={3} r={4.5} />}
    </g>
  );
}

function cut(text: string, letters: number): string {
  if (text.length <= letters) return text;
  const tail = Math.floor(letters * 0.4);
  return `${text.slice(0, Math.max(1, letters - tail - 1))}…${text.slice(-tail)}`;
}
