// How a tensor is looked at: all of it is in the address, as one word.
import { go, here, type Place } from "../state/place";
import { aboutStep, useLooking } from "../state/looking";

export const LOOKS = ["heat", "table", "histogram", "statistics", "trend", "pictures", "relations"] as const;
export type Look = (typeof LOOKS)[number];

export interface TensorState {
  look: Look;
  scale: "linear" | "log";
  clip: boolean;
  /** Top, left, height and width of what the heat map shows; empty for all. */
  window: string;
  /** How many last axes are columns; 0 for as many as fit. */
  fold: number;
  /** "p" for the step before, "s3" for step 3, "r1" for rank 1. */
  against: string;
  show: "now" | "before" | "difference";
  rtol: string;
  atol: string;
  notation: "auto" | "fixed" | "science";
  digits: number;
  /** The index that was jumped to. */
  at: string;
  bars: "linear" | "log";
  tall: "linear" | "log";
  axis: number;
  first: number;
  stat: string;
  hops: number;
  wide: boolean;
}

const START: TensorState = {
  look: "heat",
  scale: "linear",
  clip: true,
  window: "",
  fold: 0,
  against: "",
  show: "now",
  rtol: "",
  atol: "",
  notation: "auto",
  digits: 4,
  at: "",
  bars: "linear",
  tall: "linear",
  axis: 0,
  first: 0,
  stat: "max_abs",
  hops: 2,
  wide: false,
};

export function parseState(text: string): TensorState {
  const state: Record<string, unknown> = { ...START };
  for (const part of text.split(";")) {
    const at = part.indexOf("=");
    const [key, value] = [part.slice(0, at), part.slice(at + 1)];
    if (at < 0 || !(key in START)) continue;
    const usual = START[key as keyof TensorState];
    if (typeof usual === "number") {
      const number = Number(value);
      if (Number.isInteger(number) && number >= 0) state[key] = number;
    } else if (typeof usual === "boolean") state[key] = value === "true";
    else state[key] = value;
  }
  const found = state as unknown as TensorState;
  if (!LOOKS.includes(found.look)) found.look = START.look;
  if (!["now", "before", "difference"].includes(found.show)) found.show = "now";
  if (!["auto", "fixed", "science"].includes(found.notation)) found.notation = "auto";
  if (!/^(|p|[sr]\d{1,9})$/.test(found.against)) found.against = "";
  found.digits = Math.min(10, found.digits);
  return found;
}

export function formatState(state: TensorState): string {
  return Object.entries(state)
    .filter(([key, value]) => value !== START[key as keyof TensorState])
    .map(([key, value]) => `${key}=${String(value)}`)
    .join(";");
}

/** Look differently; `replace` leaves no way back to how it was. */
export function change(by: Partial<TensorState>, replace = true, place: Partial<Place> = {}): void {
  go({ ...place, tensor: formatState({ ...parseState(here().tensor), ...by }) }, replace);
}

/** Another value: what was chosen within the one before no longer fits. */
export function openValue(node: number, value: string, more: Partial<Place> = {}): void {
  const tensor = formatState({
    ...parseState(here().tensor),
    window: "",
    at: "",
    fold: 0,
    first: 0,
    axis: 0,
    against: "",
    show: "now",
  });
  const start = { index: "", file: "", line: 0, scope: null, pass: 0, view: "value" } as const;
  go({ node, value, ...start, tensor, ...more });
}

export interface Asking {
  place: Place;
  state: TensorState;
  /** Whether the difference to another value is shown. */
  isDifference: boolean;
  /** A question about the value that is open. */
  ask: (part: string, query?: Record<string, string | number | boolean | null>) => string;
  /** The same about what is shown of it: its slice, and what it is compared with. */
  askShown: (part: string, query?: Record<string, string | number | boolean | null>) => string;
}

export function useTensor(previous: number | null = null): Asking {
  const { place } = useLooking();
  const state = parseState(place.tensor);
  const [io, slot] = place.value.split(":");
  const ask: Asking["ask"] = (part, query = {}) =>
    aboutStep(place, `values/${place.node}/${io}/${slot}${part ? `/${part}` : ""}`, {
      pass: place.pass || null,
      ...query,
    });
  const askShown: Asking["askShown"] = (part, query = {}) =>
    ask(part, { index: place.index, fold: state.fold || null, ...compared(state, previous), ...query });
  const isDifference = state.show === "difference" && otherOf(state.against, previous) !== "";
  return { place, state, isDifference, ask, askShown };
}

function compared(state: TensorState, previous: number | null): Record<string, string | null> {
  const other = otherOf(state.against, previous);
  if (!other || state.show === "now") return {};
  if (state.show === "before") return { against: other, show: "before" };
  return { against: other, rtol: state.rtol, atol: state.atol };
}

/** What the server calls that which a value is compared with. */
export function otherOf(against: string, previous: number | null): string {
  if (against === "p") return previous === null ? "" : `step:${previous}`;
  const match = /^([sr])(\d{1,9})$/.exec(against);
  return match ? `${match[1] === "s" ? "step" : "rank"}:${match[2]}` : "";
}
