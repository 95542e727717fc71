// The verdict's story as the run recorded it, read with care: older runs may lack parts.
import type { Verdict } from "../api/types";
import type { Num } from "../format";

export interface StoryValue {
  slot: number;
  dtype: string | null;
  shape: number[] | null;
  min: Num;
  max: Num;
  mean: Num;
  nan: Num;
  posinf: Num;
  neginf: Num;
  zero: Num;
  count: Num;
  source: string;
}
export interface StoryPlace {
  name: string;
  where: string;
  min: Num;
  max: Num;
}
export interface Story {
  step: number;
  node: number | null;
  name: string;
  op: string;
  op_type: string;
  phase: string;
  forward: string;
  where: string;
  code: string;
  what: string;
  advice: string;
  inputs: StoryValue[];
  outputs: StoryValue[];
  reached: { loss: boolean; gradients: number; parameters: number; buffers: number; state: number };
  spread: { values: number; of: number } | null;
  before: StoryPlace[];
  abnormal: { step: number; name: string; where: string; largest: Num; before: Num } | null;
  /** How values grew, step by step, before they overflowed. */
  divergence: Divergence | null;
  /** The element, row or parameter to blame, in words. */
  culprit: string;
  /** What the input was in the steps before. */
  history: { step: number; min: Num; max: Num }[];
  /** In how many more places NaN or Inf began and arrived. */
  others: number;
}
export interface Divergence {
  what: string;
  since: number;
  factor: Num;
  from: Num;
  to: Num;
  first: string;
}

type Unknown = Record<string, unknown>;

const text = (found: unknown): string => (typeof found === "string" ? found : "");
const list = <T>(found: unknown): T[] => (Array.isArray(found) ? (found as T[]) : []);
const part = (found: unknown): Unknown | null =>
  found !== null && typeof found === "object" ? (found as Unknown) : null;

export function storyOf(verdict: Verdict): Story | null {
  const found = part(verdict.story);
  if (!found || typeof found.step !== "number") return null;
  const reached = part(found.reached);
  return {
    step: found.step,
    node: typeof found.node === "number" ? found.node : null,
    name: text(found.name),
    op: text(found.op),
    op_type: text(found.op_type),
    phase: text(found.phase),
    forward: text(found.forward),
    where: text(found.where),
    code: text(found.code),
    what: text(found.what),
    advice: text(found.advice),
    inputs: list<StoryValue>(found.inputs),
    outputs: list<StoryValue>(found.outputs),
    reached: {
      loss: reached?.loss === true,
      gradients: Number(reached?.gradients ?? 0),
      parameters: Number(reached?.parameters ?? 0),
      buffers: Number(reached?.buffers ?? 0),
      state: Number(reached?.state ?? 0),
    },
    spread: part(found.spread) as Story["spread"],
    before: list<StoryPlace>(found.before),
    abnormal: part(found.abnormal) as Story["abnormal"],
    divergence: part(found.divergence) as Story["divergence"],
    culprit: text(found.culprit),
    history: list(found.history),
    others: Number(found.others ?? 0),
  };
}
