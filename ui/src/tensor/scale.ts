// The colours of elements: blue below zero, orange above, pale around it; not finite stands out.
import { tick } from "../format";

export type Rgb = [number, number, number];

const ENDS: Record<"light" | "dark", { below: Rgb[]; above: Rgb[]; middle: Rgb }> = {
  light: {
    middle: [246, 247, 248],
    below: [
      [158, 198, 230],
      [55, 129, 190],
      [12, 60, 120],
    ],
    above: [
      [249, 198, 143],
      [230, 117, 34],
      [130, 52, 4],
    ],
  },
  dark: {
    middle: [34, 40, 48],
    below: [
      [36, 78, 122],
      [66, 140, 200],
      [190, 224, 250],
    ],
    above: [
      [112, 60, 20],
      [218, 122, 40],
      [255, 220, 170],
    ],
  },
};

export interface Scale {
  /** From -1 to 1; beyond that an outlier. */
  share: (x: number) => number;
  most: number;
  least: number;
  log: boolean;
}

/** A scale around zero that ends at `most`; on a log scale it begins at `least`. */
export function makeScale(most: number, least: number, log: boolean): Scale {
  const end = most > 0 ? most : 1;
  const start = least > 0 && least < end ? least : end / 1e6;
  const span = Math.log10(end / start) || 1;
  const share = (x: number): number => {
    if (!log) return x / end;
    const size = Math.abs(x);
    if (size === 0) return 0;
    return Math.sign(x) * Math.max(0.04, Math.log10(size / start) / span);
  };
  return { share, most: end, least: start, log };
}

export function shade(share: number, dark: boolean): Rgb {
  const { below, above, middle } = ENDS[dark ? "dark" : "light"];
  const stops = [middle, ...(share < 0 ? below : above)];
  const at = Math.min(1, Math.abs(share)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at));
  const [a, b] = [stops[low]!, stops[low + 1]!];
  const mix = (index: number): number => Math.round(a[index]! + (b[index]! - a[index]!) * (at - low));
  return [mix(0), mix(1), mix(2)];
}

export const css = ([r, g, b]: Rgb): string => `rgb(${r} ${g} ${b})`;

/** Some numbers along a scale, for its legend. */
export function ticks(scale: Scale, oneSided: boolean): { share: number; label: string }[] {
  const half = scale.log ? [scale.least, Math.sqrt(scale.least * scale.most), scale.most] : [scale.most];
  const above = half.map((x) => ({ share: scale.log ? scale.share(x) : x / scale.most, label: tick(x) }));
  const zero = { share: 0, label: "0" };
  if (oneSided) return [zero, ...above.slice(-1)];
  const below = above.map(({ share, label }) => ({ share: -share, label: `−${label}` }));
  return [...below.slice(-1), zero, ...above.slice(-1)];
}
