// What a live training can be told, and what it says of itself.
import { request, runPath } from "./client";

export type Verb = "pause" | "continue" | "step" | "next" | "to" | "terminate" | "recheck";

/** The state of a rank that is connected. */
export interface LiveRank {
  rank: number;
  state: string;
  step: number | null;
  node: number | null;
}
export interface LiveState {
  ranks: LiveRank[];
}
export interface WatchpointLine {
  id: number;
  label: string;
  condition: string;
  params: Record<string, number | string>;
  enabled: boolean;
}

export const tell = (run: string, verb: Verb, more: Record<string, unknown> = {}): Promise<unknown> =>
  request("POST", `${runPath(run)}/control`, { verb, ...more });
