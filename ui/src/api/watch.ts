// The watchpoints of a run: those of its training, or a set of the server's for one that is over.
import { request, runPath } from "./client";
import { renew } from "./control";

/** A watchpoint as it stands in a file; what is usual is left out. */
export interface WatchpointLine {
  id: number;
  condition: string;
  name?: string;
  params?: Record<string, number>;
  select?: Record<string, string>;
  enabled?: boolean;
  mute?: string[];
}

export type Change =
  | { action: "set" | "add"; watch: string | { watchpoints: unknown[] } }
  | { action: "change"; id: number; parts: Partial<WatchpointLine> }
  | { action: "remove"; id: number };

/** Change them; an error says what is wrong with it. */
export async function changeWatch(run: string, change: Change): Promise<WatchpointLine[]> {
  const now = await request<WatchpointLine[]>("POST", `${runPath(run)}/watchpoints`, change);
  renew();
  return now;
}
