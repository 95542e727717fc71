// By what the boxes of a graph are coloured, and how that looks.
import type { Box } from "../api/types";
import { value, type Num } from "../format";
import type { TextName } from "../texts";
import { ramp, shares } from "./colours";

/** What can be chosen: the word of the address, and its text. */
export const COLOURS = [
  ["phase", "by_phase"],
  ["class", "by_class"],
  ["max", "by_max"],
  ["mean", "by_mean"],
  ["zero", "by_zero"],
  ["bad", "by_bad"],
  ["hits", "by_hits"],
  ["reached", "by_reached"],
] as const satisfies readonly (readonly [string, TextName])[];

const STATISTICS: Record<string, (box: Box) => Num> = {
  max: (box) => box.max,
  mean: (box) => box.mean_abs,
  zero: (box) => box.zero_share,
};

export const isStatistic = (mode: string): boolean => mode in STATISTICS;

export interface Look {
  style: string;
  fill: string | undefined;
}

/** How boxes look that are coloured by `mode`. */
export function looksOf(boxes: Box[], mode: string, dark: boolean): (box: Box) => Look {
  const of = STATISTICS[mode];
  if (!of) return (box) => ({ style: styleOf(box, mode), fill: undefined });
  const size = (box: Box): number => Math.abs(value(of(box)) ?? NaN);
  const scale = shares(boxes.map(size), mode === "zero");
  return (box) => {
    if (box.bad) return { style: "wrong", fill: undefined };
    if (!Number.isFinite(size(box))) return { style: "", fill: undefined };
    const share = scale.share(size(box));
    const strong = dark ? share > 0.72 : share > 0.55;
    return { style: strong ? "filled strong" : "filled", fill: ramp(share, dark) };
  };
}

function styleOf(box: Box, mode: string): string {
  if (mode === "hits") return box.hits ? "wrong" : "";
  if (mode === "reached") return box.is_origin ? (box.kind === "node" ? "wrong origin" : "wrong") : box.reached ? "wrong" : "off";
  const ground = mode === "class" ? `g-${box.kind === "outside" ? box.phase : box.node_class}` : `g-${box.phase}`;
  if (mode === "bad") return box.bad ? "wrong" : "";
  return box.bad ? `${ground} wrong` : ground;
}
