// Elements as the person wants to read them.
import { short, value, type Num } from "../format";
import type { TensorState } from "./state";

export function shown(found: Num, state: Pick<TensorState, "notation" | "digits">): string {
  const number = value(found);
  if (number === null || !Number.isFinite(number)) return short(found);
  if (typeof found === "string") return found;
  let text: string;
  if (state.notation === "fixed") text = number.toFixed(Math.min(10, state.digits));
  else if (state.notation === "science")
    text = number.toExponential(Math.min(10, state.digits)).replace("e+", "e");
  else if (state.digits === 4) return short(number);
  else text = String(Number(number.toPrecision(Math.max(1, state.digits))));
  return text.replace(/-/g, "−");
}
