// Three columns whose borders can be dragged; this browser keeps where they are. A narrow window shows one
// of them at a time.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { magnification } from "./screen";
import { keep, keptNumber } from "../state/theme";
import { useTexts, type TextName } from "../texts";

interface Props {
  left: ComponentChildren;
  middle: ComponentChildren;
  right: ComponentChildren;
}
type SideName = "left" | "right";
/** On wide screens the lists and details are wider as well, on narrow ones narrower. */
const room = (): number => document.querySelector("#page")?.clientWidth ?? innerWidth;
const USUAL = {
  left: Math.round(Math.min(560, Math.max(Math.min(280, room() * 0.219), room() * 0.15))),
  right: Math.round(Math.min(720, Math.max(Math.min(336, room() * 0.2625), room() * 0.19))),
};
const LEAST = 180;
const NARROW = matchMedia("(max-width: 760px)");
const PARTS: [keyof Props, TextName][] = [
  ["left", "part_left"],
  ["middle", "part_middle"],
  ["right", "part_right"],
];

export function Columns(props: Props) {
  const [narrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const change = (): void => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", change);
    return () => NARROW.removeEventListener("change", change);
  }, []);
  return narrow ? <OneColumn {...props} /> : <ThreeColumns {...props} />;
}

function OneColumn(props: Props) {
  const t = useTexts();
  const [shown, setShown] = useState<keyof Props>("middle");
  return (
    <>
      <nav class="parts" role="tablist">
        {PARTS.map(([part, say]) => (
          <button
            key={part}
            role="tab"
            aria-selected={shown === part}
            class={shown === part ? "on" : ""}
            onClick={() => setShown(part)}
          >
            {t(say)}
          </button>
        ))}
      </nav>
      <div class="columns">
        <section class={`side-${shown}`}>{props[shown]}</section>
      </div>
    </>
  );
}

function ThreeColumns({ left, middle, right }: Props) {
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
