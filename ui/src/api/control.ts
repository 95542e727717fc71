// What a live training can be told, and what it says of itself.
import { revision, request, runPath } from "./client";
import { store } from "../state/store";

export type Verb = "pause" | "continue" | "step" | "next" | "to" | "terminate";

/** Why the last order was refused, until one is taken. */
export const refusal = store("");

/** What waits to be shown again, now that something was changed. */
export function renew(): void {
  revision.set(revision.get() + 1);
}

/** Tell a training what to do; what is wrong with that is shown beside the buttons. */
export async function tell(run: string, verb: Verb, more: Record<string, unknown> = {}): Promise<void> {
  try {
    await request("POST", `${runPath(run)}/control`, { verb, ...more });
    refusal.set("");
  } catch (problem) {
    refusal.set(problem instanceof Error ? problem.message : String(problem));
  }
  renew();
}
