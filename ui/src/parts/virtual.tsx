// A long list of which only what is seen is made.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

interface Props {
  count: number;
  height: number;
  row: (index: number) => ComponentChildren;
  /** A row to bring into sight when this changes. */
  show?: number;
  class?: string;
  role?: "list" | "tree";
  label?: string;
  onRange?: (first: number, last: number) => void;
}

const MORE = 6;

export function VirtualList({ count, height, row, show, class: style, role, label, onRange }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [room, setRoom] = useState(600);
  useLayoutEffect(() => {
    const element = box.current!;
    const measure = new ResizeObserver(() => setRoom(element.clientHeight));
    measure.observe(element);
    setRoom(element.clientHeight);
    return () => measure.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = box.current!;
    if (show === undefined || show < 0) return;
    const [start, end] = [show * height, (show + 1) * height];
    if (start < element.scrollTop || end > element.scrollTop + element.clientHeight) {
      element.scrollTop = Math.max(0, start - element.clientHeight / 2);
    }
  }, [show, height, room]);
  const first = Math.max(0, Math.floor(top / height) - MORE);
  const last = Math.min(count, Math.ceil((top + room) / height) + MORE);
  useEffect(() => onRange?.(first, last), [first, last, onRange]);
  const rows: ComponentChildren[] = [];
  for (let index = first; index < last; index++) rows.push(row(index));
  return (
    <div
      class={`scroll ${style ?? ""}`}
      ref={box}
      role={role}
      aria-label={label}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <div style={{ height: `${count * height}px`, position: "relative" }}>
        <div style={{ transform: `translateY(${first * height}px)` }}>{rows}</div>
      </div>
    </div>
  );
}
