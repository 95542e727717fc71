// The menu of a box of the graph.
import { useEffect, useRef } from "preact/hooks";
import { tell } from "../api/control";
import type { Box } from "../api/types";
import { useClosing } from "../parts/menu";
import { useLooking } from "../state/looking";
import { watchNew } from "../state/draft";
import { go, listNodes, select, showPath } from "../state/place";
import { useTexts } from "../texts";

export interface MenuPlace {
  box: Box;
  x: number;
  y: number;
}

export function GraphMenu({ at, onClose }: { at: MenuPlace; onClose: () => void }) {
  const t = useTexts();
  const { place, run, verdict } = useLooking();
  const menu = useRef<HTMLDivElement>(null);
  useEffect(() => menu.current?.querySelector("button")?.focus(), []);
  useClosing(menu, true, onClose);
  const { box } = at;
  const item = (say: string, act: () => void) => (
    <button role="menuitem" onClick={() => (onClose(), act())}>
      {say}
    </button>
  );
  const origin = verdict?.story?.node;
  const name = box.node === null ? box.scope : `${box.scope ? `${box.scope}/` : ""}${box.label}`;
  return (
    <div class="menu" role="menu" ref={menu} style={{ left: `${at.x}px`, top: `${at.y}px`, right: "auto" }}>
      {box.node === null && box.scope !== "" && item(t("open_scope"), () => go({ scope: box.scope }))}
      {box.node !== null && item(t("show_line_of"), () => select(box.node!, { view: "source" }))}
      {box.node !== null &&
        place.node !== null &&
        place.node !== box.node &&
        item(t("path_from_selected"), () => showPath(place.node!, box.node!))}
      {box.node !== null &&
        typeof origin === "number" &&
        origin !== box.node &&
        item(t("path_from_origin"), () => showPath(origin, box.node!))}
      {item(t("show_in_list"), () => listNodes(name))}
      {item(t("watch_this"), () => watchNew(box.node === null ? { scope: box.scope } : { node: name }))}
      {run?.live &&
        box.node !== null &&
        item(t("run_to"), () => void tell(place.run, "to", { node: name }))}
    </div>
  );
}
