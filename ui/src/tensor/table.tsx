// Elements as a table of any size: only what is seen is asked for and drawn.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ask as request } from "../api/client";
import type { Block, Layout } from "../api/types";
import { full, isBad, value, type Num } from "../format";
import { useSize } from "../parts/width";
import { columnLabel, indexOf, parseAt, placeOf, rowLabel } from "./layout";
import { shown } from "./numbers";
import { change, type Asking } from "./state";
import { useWheel } from "./wheel";

const ROW = 22;
const BLOCK_ROWS = 64;
const BLOCK_COLUMNS = 32;
const BLOCKS_KEPT = 80;
/** Browsers draw nothing beyond some tens of millions of pixels. */
const MOST_PX = 8_000_000;

const px = (size: number): string => `${size}px`;

interface Props {
  asking: Asking;
  layout: Layout;
  shape: number[];
}

export function Table({ asking, layout, shape }: Props) {
  const { state } = asking;
  const [box, width, height] = useSize();
  const cellWidth = 34 + 8 * Math.max(5, state.notation === "auto" ? state.digits + 3 : state.digits + 5);
  const headWidth = 16 + 7.4 * Math.max(4, rowLabel(layout, Math.max(0, layout.rows - 1)).length);
  const rows = useScroll(layout.rows, ROW, height - ROW);
  const columns = useScroll(layout.columns, cellWidth, width - headWidth);
  const at = state.at ? parseAt(state.at, shape) : null;
  const mark = at && placeOf(layout, at);
  useLayoutEffect(() => {
    if (!mark || !height || !box.current) return;
    box.current.scrollTop = rows.moveTo(mark.row - 4);
    box.current.scrollLeft = columns.moveTo(mark.column - 2);
  }, [state.at, layout, height > 0, width > 0]);
  const last = {
    row: Math.min(layout.rows, rows.first + rows.seen),
    column: Math.min(layout.columns, columns.first + columns.seen),
  };
  const cell = useBlocks(asking, rows.first, last.row, columns.first, last.column);
  useWheel(box, (event, element) => {
    if (!rows.isScaled || event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    event.preventDefault();
    const by = Math.sign(event.deltaY) * Math.max(1, Math.round(Math.abs(event.deltaY) / ROW));
    element.scrollTop = rows.moveTo(rows.first + by);
  });
  const drawn: preact.JSX.Element[] = [];
  for (let row = rows.first; row < last.row; row++) {
    const cells: preact.JSX.Element[] = [];
    for (let column = columns.first; column < last.column; column++) {
      cells.push(
        <Cell
          key={column}
          found={cell(row, column)}
          width={cellWidth}
          isMarked={mark?.row === row && mark.column === column}
          text={(one) => shown(one, state)}
          onChoose={() => change({ at: indexOf(layout, row * layout.columns + column).join(",") })}
        />,
      );
    }
    drawn.push(
      <div key={row} class="trow" data-row-number={row}>
        <span class="thead num" style={{ width: px(headWidth) }} title={rowLabel(layout, row)}>
          {rowLabel(layout, row)}
        </span>
        {cells}
      </div>,
    );
  }
  const heads: preact.JSX.Element[] = [];
  for (let column = columns.first; column < last.column; column++)
    heads.push(
      <span key={column} class="thead num" style={{ width: px(cellWidth) }}>
        {columnLabel(layout, column)}
      </span>,
    );
  return (
    <div
      class="tensortable"
      ref={box}
      tabIndex={0}
      onScroll={(event) => {
        rows.scrolled(event.currentTarget.scrollTop);
        columns.scrolled(event.currentTarget.scrollLeft);
      }}
    >
      <div style={{ height: px(rows.pixels + ROW), width: px(columns.pixels + headWidth) }}>
        <div class="tview" style={{ width: px(Math.max(0, width)) }}>
          <div class="trow top">
            <span class="thead" style={{ width: px(headWidth) }} />
            {heads}
          </div>
          {drawn}
        </div>
      </div>
    </div>
  );
}

interface CellProps {
  found: Num;
  width: number;
  isMarked: boolean;
  text: (found: Num) => string;
  onChoose: () => void;
}

function Cell({ found, width, isMarked, text, onChoose }: CellProps) {
  const style = [
    "tcell",
    "num",
    isBad(found) ? "bad" : value(found) === 0 ? "faint" : "",
    isMarked ? "marked" : "",
  ];
  return (
    <span class={style.join(" ")} style={{ width: px(width) }} title={full(found)} onClick={onChoose}>
      {found === undefined ? "·" : text(found)}
    </span>
  );
}

interface Scroll {
  first: number;
  /** How many are in sight, and one more. */
  seen: number;
  pixels: number;
  isScaled: boolean;
  scrolled: (offset: number) => void;
  offsetOf: (item: number) => number;
  /** Show this one first; returns the offset that the bar is to have, which then changes nothing. */
  moveTo: (item: number) => number;
}

/** Scrolling along one direction; where there are more pixels than a browser has, they are shared out. */
function useScroll(total: number, size: number, room: number): Scroll {
  const [first, setFirst] = useState(0);
  const expected = useRef(-1);
  const pixels = Math.min(MOST_PX, total * size);
  const isScaled = total * size > MOST_PX;
  const seen = Math.ceil(Math.max(0, room) / size) + 1;
  const last = Math.max(0, total - Math.floor(Math.max(size, room) / size));
  const offsetOf = (item: number): number => {
    const to = Math.min(last, Math.max(0, item));
    return isScaled ? (to / Math.max(1, last)) * (pixels - room) : to * size;
  };
  const scrolled = (offset: number): void => {
    if (Math.abs(offset - expected.current) < 1.5) return;
    expected.current = -1;
    const item = isScaled
      ? Math.round((offset / Math.max(1, pixels - room)) * last)
      : Math.floor(offset / size);
    setFirst(Math.min(last, Math.max(0, item)));
  };
  useEffect(() => setFirst((old) => Math.min(old, last)), [last]);
  return {
    first: Math.min(first, last),
    seen,
    pixels,
    isScaled,
    scrolled,
    offsetOf,
    moveTo: (item) => {
      setFirst(Math.min(last, Math.max(0, item)));
      expected.current = offsetOf(item);
      return expected.current;
    },
  };
}

/** The elements in sight, in blocks that are kept a while; undefined while they are awaited. */
function useBlocks(
  asking: Asking,
  top: number,
  bottom: number,
  left: number,
  right: number,
): (row: number, column: number) => Num {
  const blocks = useRef(new Map<string, Block | null>());
  const [, redraw] = useState(0);
  const keyOf = (row: number, column: number): string =>
    asking.askShown("block", {
      top: Math.floor(row / BLOCK_ROWS) * BLOCK_ROWS,
      left: Math.floor(column / BLOCK_COLUMNS) * BLOCK_COLUMNS,
      height: BLOCK_ROWS,
      width: BLOCK_COLUMNS,
    });
  useEffect(() => {
    const kept = blocks.current;
    for (let row = top; row < bottom + BLOCK_ROWS; row += BLOCK_ROWS)
      for (let column = left; column < right + BLOCK_COLUMNS; column += BLOCK_COLUMNS) {
        const key = keyOf(Math.min(row, bottom - 1), Math.min(column, right - 1));
        if (bottom <= top || right <= left || kept.has(key)) continue;
        kept.set(key, null);
        request<Block>(key).then(
          (block) => {
            kept.set(key, block);
            redraw((count) => count + 1);
          },
          () => kept.delete(key),
        );
      }
    while (kept.size > BLOCKS_KEPT) kept.delete(kept.keys().next().value!);
  }, [keyOf(top, left), keyOf(bottom - 1, right - 1)]);
  const near = new Map<string, Block | null | undefined>();
  return (row, column) => {
    const name = `${Math.floor(row / BLOCK_ROWS)} ${Math.floor(column / BLOCK_COLUMNS)}`;
    if (!near.has(name)) near.set(name, blocks.current.get(keyOf(row, column)));
    const block = near.get(name);
    return block?.elements[(row - block.top) * block.columns + column - block.left];
  };
}
