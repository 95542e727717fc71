// The watchpoint that is being written, until it is saved or put aside.
import type { ConditionFacts } from "../api/types";
import type { WatchpointLine } from "../api/watch";
import { go } from "./place";
import { store } from "./store";

export interface Draft {
  /** Of the watchpoint that is changed; null for a new one. */
  id: number | null;
  /** An abbreviation, or the text of an expression. */
  condition: string;
  isExpression: boolean;
  /** As typed; what is empty is not given. */
  params: Record<string, string>;
  select: Record<string, string>;
  mute: string[];
  name: string;
  enabled: boolean;
}

export const draft = store<Draft | null>(null);
export const START_EXPRESSION = "max > 10 and zero_share < 0.5";

const NEW: Draft = {
  id: null,
  condition: "TO",
  isExpression: false,
  params: {},
  select: {},
  mute: [],
  name: "",
  enabled: true,
};

export const looksLikeExpression = (text: string): boolean => /[<>]|==|!=/.test(text);

/** A watchpoint as it stands in a file, as a draft. */
export function draftOf(point: WatchpointLine): Draft {
  const params = Object.entries(point.params ?? {}).map(([name, value]) => [name, String(value)]);
  return {
    id: point.id,
    condition: point.condition,
    isExpression: looksLikeExpression(point.condition),
    params: Object.fromEntries(params) as Record<string, string>,
    select: { ...point.select },
    mute: [...(point.mute ?? [])],
    name: point.name ?? "",
    enabled: point.enabled ?? true,
  };
}

/** A draft as it stands in a file; numbers that are none are left to the server to refuse. */
export function pointOf(of: Draft): Omit<WatchpointLine, "id" | "params"> & { params: Record<string, unknown> } {
  const given = Object.entries(of.params).filter(([, text]) => text.trim() !== "");
  const numbers = given.map(([name, text]) => [name, Number.isNaN(Number(text)) ? text : Number(text)]);
  return {
    condition: of.condition,
    params: of.isExpression ? {} : (Object.fromEntries(numbers) as Record<string, unknown>),
    select: Object.fromEntries(Object.entries(of.select).filter(([, text]) => text.trim() !== "")),
    mute: of.mute,
    name: of.name.trim(),
    enabled: of.enabled,
  };
}

type Known = ConditionFacts | undefined;

/** Whether one of the thresholds that it must have is given. */
export function isComplete(of: Draft, facts: Known): boolean {
  if (of.isExpression) return of.condition.trim() !== "";
  const thresholds = facts?.parameters.filter((each) => each.is_threshold) ?? [];
  const given = thresholds.some((each) => each.default !== null || of.params[each.name]?.trim());
  return thresholds.length === 0 || given;
}

/** The same values selected by something that can be asked for, also while its numbers are missing. */
export function selectionOf(of: Draft, facts: Known): unknown {
  const point = { ...pointOf(of), name: "", enabled: true };
  if (of.isExpression) return { ...point, condition: "max > 0" };
  const simple = facts?.parameters.find((each) => each.is_threshold && !each.name.includes("percentage"));
  return { ...point, params: simple ? { [simple.name]: 1 } : {} };
}

const escaped = (name: string): string => name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

/** Begin a new one, on a node or a scope if one is named. */
export function watchNew(about: { node?: string; scope?: string } = {}): void {
  const pieces = [
    ...(about.node ? [`${escaped(about.node)}$`] : []),
    ...(about.scope ? [`${escaped(about.scope)}/`] : []),
  ];
  draft.set({ ...NEW, select: pieces.length ? { regex: `^(?:${pieces.join("|")})` } : {} });
  go({ view: "edit", watchpoint: 0 });
}

/** Change one that is there. */
export function watchEdit(point: WatchpointLine): void {
  draft.set(draftOf(point));
  go({ view: "edit", watchpoint: point.id });
}

/** Whether a regular expression was made of ticks. */
export const isTicks = (regex: string | undefined): boolean => /^\^\(\?:.+\)$/.test(regex ?? "");
