// Watchpoints in words.
import type { ConditionFacts } from "../api/types";
import type { WatchpointLine } from "../api/watch";
import { short } from "../format";
import { isTicks } from "../state/draft";
import type { Texts } from "../texts";

/** `TL max > 10`: the condition and its numbers, or the expression itself. */
export function inWords(point: WatchpointLine, conditions: ConditionFacts[] | undefined): string {
  const facts = conditions?.find((each) => each.abbr === point.condition);
  const given = Object.entries(point.params ?? {})
    .map(([name, value]) => [facts?.parameters.find((each) => each.name === name), name, value] as const)
    .filter(([known, , value]) => known?.default === null || known?.default !== value)
    .map(([known, name, value]) => `${known?.words ?? name} ${short(value)}${known?.unit === "%" ? " %" : ""}`);
  return [point.condition, given.join(", ")].filter(Boolean).join(" ");
}

/** What a condition is about, in a sentence. */
export function summaryOf(point: WatchpointLine, conditions: ConditionFacts[] | undefined): string {
  const facts = conditions?.find((each) => each.abbr === point.condition);
  return facts?.summary ?? "";
}

/** Which values it looks at. */
export function selectionWords(point: WatchpointLine, t: Texts): string {
  return Object.entries(point.select ?? {})
    .map(([name, text]) => (name === "regex" && isTicks(text) ? t("by_ticks", text.split("|").length) : `${name} ${text}`))
    .join(", ");
}
