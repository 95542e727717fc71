// The phase of a node as a small mark.
import { named, useTexts } from "../texts";

const LETTERS: Record<string, string> = {
  forward: "F",
  backward: "B",
  optimizer: "O",
  eval: "E",
  data: "D",
  setup: "S",
};

export function PhaseMark({ of }: { of: string }) {
  useTexts();
  return (
    <span class={`phase phase-${of}`} title={named("phase", of)}>
      {LETTERS[of] ?? "·"}
    </span>
  );
}
