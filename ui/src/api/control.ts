// What a live training can be told, and what it says of itself.
import { request, runPath } from "./client";

export type Verb = "pause" | "continue" | "step" | "next" | "to" | "terminate" | "recheck";

/** A rank that is connected: running, paused, waiting (before step 0), ended or lost. */
export interface LiveRank {
  rank: number;
  state: string;
  reason: string;
  step: number;
  /** The node that it holds at. */
  node: { node: number; name: string } | null;
}
export interface LiveState {
  ranks: LiveRank[];
}
/** A watchpoint as it stands in a file; what is usual is left out. */
export interface WatchpointLine {
  id: number;
  condition: string;
  name?: string;
  params?: Record<string, number | string>;
  select?: Record<string, unknown>;
  enabled?: boolean;
}

export const tell = (run: string, verb: Verb, more: Record<string, unknown> = {}): Promise<unknown> =>
  request("POST", `${runPath(run)}/control`, { verb, ...more });
