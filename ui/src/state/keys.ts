// The keyboard: one letter each, never while something is typed.
import { useEffect } from "preact/hooks";
import type { Strip } from "../api/types";
import { go, here, type ListName, type ViewName } from "./place";
import { moveHit, moveStep } from "./steps";
import { switchTheme } from "./theme";

const VIEW_KEYS: Record<string, ViewName> = { s: "source", h: "heat", g: "graph", t: "steps", v: "value", e: "edit" };
const LIST_KEYS: Record<string, ListName> = { 1: "model", 2: "nodes", 3: "lines", 4: "hits", 5: "watch" };

export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

/** The row after or before the selected one in the list on the left. */
function moveRow(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>(".side-left [data-row]:not(.scope)")];
  if (!rows.length) return;
  const now = rows.findIndex((row) => row.classList.contains("chosen"));
  const next = rows[now < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, now + by))];
  next?.click();
  next?.scrollIntoView({ block: "nearest" });
}

export function useKeys(
  strip: Strip | undefined,
  showHelp: () => void,
  control?: (verb: string) => void,
): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (isTyping(event.target)) {
        if (event.key === "Escape") (event.target as HTMLElement).blur();
        return;
      }
      const { key } = event;
      if (key === "/") document.querySelector<HTMLInputElement>("#search")?.focus();
      else if (key === "[" || key === "]") moveStep(strip, key === "]" ? 1 : -1);
      else if (key === "{" || key === "}") moveHit(strip, key === "}" ? 1 : -1);
      else if (key === "j" || key === "k") moveRow(key === "j" ? 1 : -1);
      else if (key in VIEW_KEYS) go({ view: VIEW_KEYS[key]! });
      else if (key in LIST_KEYS) go({ list: LIST_KEYS[key]! });
      else if (key === "w") go({ why: !here().why }, true);
      else if (key === "l") go({ step: null });
      else if (key === "d") switchTheme();
      else if (key === "?") showHelp();
      else if (key === " " && control && !(event.target instanceof HTMLButtonElement)) control("toggle");
      else if (key === "." && control) control("next");
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [strip, showHelp, control]);
}
