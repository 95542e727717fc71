// Three columns whose borders can be dragged; this browser keeps where they are.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { magnification } from "./screen";
import { keep, keptNumber } from "../state/theme";

interface Props {
  left: ComponentChildren;
  middle: ComponentChildren;
  right: ComponentChildren;
}
type SideName = "left" | "right";
/** On wide screens the lists and details are wider as well, on narrow ones narrower. */
const room = (): number => document.querySelector("#page")?.clientWidth ?? innerWidth;
const USUAL = {
  left: Math.round(Math.min(560, Math.max(Math.min(262, room() * 0.205), room() * 0.145))),
  right: Math.round(Math.min(720, Math.max(Math.min(336, room() * 0.2625), room() * 0.19))),
};
const LEAST = 180;

export function Columns({ left, middle, right }: Props) {
  const [widths, setWidths] = useState({
    left: keptNumber("left", USUAL.left),
    right: keptNumber("right", USUAL.right),
  });
  const box = useRef<HTMLDivElement>(null);
  const drag = (side: SideName) => (event: PointerEvent) => {
    const handle = event.currentTarget as HTMLElement;
    handle.setPointerCapture(event.pointerId);
    const [from, before, across] = [event.clientX, widths[side], magnification(box.current!)];
    const most = (box.current?.clientWidth ?? 1200) * 0.45;
    const move = (moved: PointerEvent): void => {
      const by = (side === "left" ? moved.clientX - from : from - moved.clientX) / across;
      setWidths((old) => ({ ...old, [side]: Math.round(Math.min(most, Math.max(LEAST, before + by))) }));
    };
    const end = (): void => {
      handle.removeEventListener("pointermove", move);
      setWidths((old) => (keep(side, String(old[side])), old));
    };
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", end, { once: true });
  };
  const border = (side: SideName) => (
    <div
      class="border"
      role="separator"
      aria-orientation="vertical"
      onPointerDown={drag(side)}
      onDblClick={() => setWidths((old) => ({ ...old, [side]: USUAL[side] }))}
    />
  );
  return (
    <div
      class="columns"
      ref={box}
      style={{ gridTemplateColumns: `${widths.left}px 5px minmax(0, 1fr) 5px ${widths.right}px` }}
    >
      <section class="side-left">{left}</section>
      {border("left")}
      <section class="side-middle">{middle}</section>
      {border("right")}
      <section class="side-right">{right}</section>
    </div>
  );
}
