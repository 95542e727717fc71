// Moving from step to step, and from hit to hit.
import type { RunDetails, Strip } from "../api/types";
import { go, here } from "./place";

/** The recorded step before or after the one that is looked at. */
export function moveStep(strip: Strip | undefined, by: number): void {
  if (strip) moveAmong(strip.recorded.length ? strip.recorded : strip.steps, strip, by);
}

/** The step with hits before or after. */
export function moveHit(strip: Strip | undefined, by: number): void {
  if (!strip) return;
  const steps = [...new Set(strip.lanes.flatMap((lane) => lane.steps))].sort((a, b) => a - b);
  moveAmong(steps, strip, by);
}

function moveAmong(steps: number[], strip: Strip, by: number): void {
  const now = here().step ?? lastStep(strip);
  const next = by > 0 ? steps.find((step) => step > now) : steps.findLast((step) => step < now);
  if (next !== undefined) go({ step: next });
}

/** The last step that is known; one that training is held or died in has numbers, but has not ended. */
export function lastStep({ steps, recorded }: Strip): number {
  return Math.max(steps[steps.length - 1] ?? 0, recorded[recorded.length - 1] ?? 0);
}

/** The recorded step that stands for one: the last up to it. */
export function recordedAt(strip: Strip | undefined, step: number | null): number | null {
  const steps = strip?.recorded ?? [];
  if (!steps.length) return null;
  if (step === null) return steps[steps.length - 1]!;
  return steps.findLast((found) => found <= step) ?? steps[0]!;
}

/** The recorded step before one. */
export function stepBefore(strip: Strip | undefined, step: number | null): number | null {
  if (step === null) return null;
  return strip?.recorded.findLast((found) => found < step) ?? null;
}

/** The last step that a sketch over steps shows: while training runs only its first digit counts, so that
 * sketches are seldom asked for again; afterwards there is no end to say. */
export function lastForSketches(
  run: RunDetails | undefined,
  rank: number,
  strip: Strip | undefined,
): number | null {
  const isRunning = run?.ranks.some((found) => found.rank === rank && found.state === "running") ?? false;
  if (!isRunning) return null;
  const last = strip?.recorded[strip.recorded.length - 1] ?? 0;
  const unit = 10 ** Math.floor(Math.log10(Math.max(1, last)));
  return Math.floor(last / unit) * unit;
}
