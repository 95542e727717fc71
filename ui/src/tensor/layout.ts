// Rows and columns of what is shown, and the indices of the tensor that they are.
import type { Layout } from "../api/types";

/** The index in the whole tensor of an element, by its place among those that are shown. */
export function indexOf(layout: Layout, flat: number): number[] {
  const within: number[] = [];
  let rest = flat;
  for (const size of layout.shape.toReversed()) {
    within.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return layout.axes.map((axis) => (axis.ranged ? axis.start + axis.step * within.shift()! : axis.start));
}

/** The row and column of an index; null where it is not among what is shown. */
export function placeOf(layout: Layout, index: number[]): { row: number; column: number } | null {
  if (index.length !== layout.axes.length) return null;
  let flat = 0;
  for (const [axis, at] of index.entries()) {
    const { start, step, count } = layout.axes[axis]!;
    const within = (at - start) / step;
    if (!Number.isInteger(within) || within < 0 || within >= count) return null;
    flat = flat * count + within;
  }
  return { row: Math.floor(flat / layout.columns), column: flat % layout.columns };
}

/** An index as a person types it; negative numbers count from the end. */
export function parseAt(text: string, shape: number[]): number[] | null {
  const words = text.trim() ? text.split(",") : [];
  if (words.length !== shape.length) return null;
  const found = words.map((word, axis) => {
    const number = /^\s*-?\d+\s*$/.test(word) ? Number(word) : NaN;
    return number < 0 ? number + shape[axis]! : number;
  });
  return found.every((at, axis) => at >= 0 && at < shape[axis]!) ? found : null;
}

/** How many of the last axes that are shown make up the columns; 0 where a long row is folded. */
export function trailing(layout: Layout): number {
  let [size, axes] = [1, 0];
  for (const count of layout.shape.toReversed()) {
    if (size === layout.columns && axes > 0) break;
    size *= count;
    axes++;
  }
  return size === layout.columns ? axes : 0;
}

export function rowLabel(layout: Layout, row: number): string {
  const index = indexOf(layout, row * layout.columns);
  const last = trailing(layout);
  if (!last) return `${index.join(",")} …`;
  let left = last;
  for (let axis = layout.axes.length - 1; axis >= 0 && left > 0; axis--) {
    if (layout.axes[axis]!.ranged) {
      index.splice(axis, 1);
      left--;
    }
  }
  return index.join(",");
}

export function columnLabel(layout: Layout, column: number): string {
  const last = trailing(layout);
  if (!last) return `+${column * (layout.axes.find((axis) => axis.ranged)?.step ?? 1)}`;
  const index = indexOf(layout, column);
  const ranged = layout.axes.flatMap((axis, place) => (axis.ranged ? [place] : []));
  return ranged
    .slice(-last)
    .map((place) => index[place])
    .join(",");
}
