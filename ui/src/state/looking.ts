// What all panels of a run need: which run, its facts, and what to ask.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { question, rankPath } from "../api/client";
import type { RunDetails, Strip, Verdict } from "../api/types";
import type { Place } from "./place";

export interface Looking {
  place: Place;
  run: RunDetails | undefined;
  strip: Strip | undefined;
  verdict: Verdict | undefined;
  /** Whether answers about the shown step may still change. */
  moving: boolean;
  /** The step whose numbers are shown, as far as is known. */
  step: number | null;
}

export const LookingContext = createContext<Looking | null>(null);

export function useLooking(): Looking {
  const found = useContext(LookingContext);
  if (!found) throw new Error("outside a run");
  return found;
}

type Query = Record<string, string | number | boolean | null>;

/** A question about the rank that is looked at. */
export function aboutRank(place: Place, path: string, query: Query = {}): string {
  return question(`${rankPath(place.run, place.rank)}/${path}`, query);
}

/** The same about the step that is looked at. */
export function aboutStep(place: Place, path: string, query: Query = {}): string {
  return aboutRank(place, path, { ...query, step: place.step });
}
