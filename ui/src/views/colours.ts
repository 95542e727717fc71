// Colours of numbers: magnitudes from pale to deep, on a log scale; not finite hatched.
type Rgb = [number, number, number];

const LIGHT: Rgb[] = [
  [239, 243, 248],
  [198, 219, 239],
  [133, 183, 221],
  [70, 137, 193],
  [26, 88, 150],
  [10, 45, 92],
];
const DARK: Rgb[] = [
  [27, 35, 45],
  [27, 58, 92],
  [34, 92, 143],
  [63, 133, 186],
  [126, 182, 220],
  [214, 234, 247],
];

/** The colour of a share between 0 and 1. */
export function ramp(share: number, dark: boolean): string {
  const stops = dark ? DARK : LIGHT;
  const at = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at));
  const part = at - low;
  const [a, b] = [stops[low]!, stops[low + 1]!];
  const mix = (index: number): number => Math.round(a[index]! + (b[index]! - a[index]!) * part);
  return `rgb(${mix(0)} ${mix(1)} ${mix(2)})`;
}

/** Blue below zero, orange above, pale around it. */
export function diverging(share: number, dark: boolean): string {
  const [below, above]: [Rgb, Rgb] = [
    [33, 102, 172],
    [217, 95, 14],
  ];
  const middle: Rgb = dark ? [40, 46, 54] : [247, 247, 247];
  const end = share < 0 ? below : above;
  const part = Math.min(1, Math.abs(share)) ** 0.6;
  const mix = (index: number): number => Math.round(middle[index]! + (end[index]! - middle[index]!) * part);
  return `rgb(${mix(0)} ${mix(1)} ${mix(2)})`;
}

/** A pattern of slanted lines for what is not finite. */
export function hatch(
  context: CanvasRenderingContext2D,
  ink: string,
  ground: string,
): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const brush = tile.getContext("2d");
  if (!brush) return ink;
  brush.fillStyle = ground;
  brush.fillRect(0, 0, 6, 6);
  brush.strokeStyle = ink;
  brush.lineWidth = 2;
  brush.beginPath();
  for (const shift of [-6, 0, 6]) {
    brush.moveTo(shift, 6);
    brush.lineTo(shift + 6, 0);
  }
  brush.stroke();
  return context.createPattern(tile, "repeat") ?? ink;
}

/** A scale over the finite numbers: logarithmic where they are above zero, else linear. */
export function shares(
  numbers: number[],
  linear: boolean,
  leastSpan = 0,
): { low: number; high: number; share: (x: number) => number } {
  const finite = numbers.filter((one) => Number.isFinite(one) && (linear || one > 0)).sort((a, b) => a - b);
  if (!finite.length) return { low: 0, high: 1, share: () => 0 };
  if (linear) {
    const [low, high] = [Math.min(0, finite[0]!), finite[finite.length - 1]!];
    return { low, high, share: (x) => (high > low ? (x - low) / (high - low) : 0) };
  }
  // One huge number would leave the rest without contrast: the ends are those of nearly all.
  const low = finite[Math.floor(finite.length * 0.02)]!;
  const high = finite[Math.ceil(finite.length * 0.98) - 1]!;
  const more = Math.max(0, leastSpan - Math.log10(high / low)) / 2;
  const [start, end] = [Math.log10(low) - more, Math.log10(high) + more];
  return {
    low,
    high,
    share: (x) => (x <= 0 ? 0 : end > start ? (Math.log10(x) - start) / (end - start) : 0.5),
  };
}
