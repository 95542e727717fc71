// Where the person is in a recording: the address says all of it, so a link shows what its sender saw.
import { store, useStore } from "../state/store";

export interface RecordingPlace {
  id: string;
  /** The stretch of time that is shown, in nanoseconds; null for the last steps. */
  from: number | null;
  to: number | null;
  /** Which of its ranks the panels below the timeline are about; null for the one to look at first. */
  at: number | null;
  /** The chosen operator of a rank: `0:1234`. */
  op: string;
}

const PATH = /^\/recording\/([^/]+)/;

export const isRecording = (path: string): boolean => PATH.test(path);
export const recordingLink = (id: string): string => `/recording/${encodeURIComponent(id)}`;

function placeAt(path: string, search: string): RecordingPlace {
  const query = new URLSearchParams(search);
  const whole = (name: string): number | null => {
    const text = query.get(name);
    const number = text === null || text === "" ? NaN : Number(text);
    return Number.isSafeInteger(number) && number >= 0 ? number : null;
  };
  const op = query.get("op") ?? "";
  return {
    id: decoded(PATH.exec(path)?.[1] ?? ""),
    from: whole("from"),
    to: whole("to"),
    at: whole("at"),
    op: /^\d+:\d+$/.test(op) ? op : "",
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function address(place: RecordingPlace): string {
  const query = new URLSearchParams();
  for (const name of ["from", "to", "at"] as const) {
    if (place[name] !== null) query.set(name, String(place[name]));
  }
  if (place.op) query.set("op", place.op);
  const text = query.toString();
  return recordingLink(place.id) + (text ? `?${text}` : "");
}

const current = store<RecordingPlace>(placeAt(location.pathname, location.search));
window.addEventListener("popstate", () => current.set(placeAt(location.pathname, location.search)));

export const hereNow = (): RecordingPlace => current.get();
export const useRecordingPlace = (): RecordingPlace => useStore(current);

/** Move; back returns, unless this replaces where the person was. */
export function goTo(change: Partial<RecordingPlace>, replace = false): void {
  const next = { ...current.get(), ...change };
  const link = address(next);
  if (link !== location.pathname + location.search) {
    history[replace ? "replaceState" : "pushState"](null, "", link);
  }
  current.set(next);
}

/** The chosen operator: the place of its rank, and its number. */
export function chosen(place: RecordingPlace): { at: number; sequence: number } | null {
  if (!place.op) return null;
  const [at, sequence] = place.op.split(":").map(Number);
  return { at: at!, sequence: sequence! };
}
