// Places of tensors: what leads to the centre on its left, what it feeds on its right.
import type { Relations } from "../api/types";

export const BOX = { width: 138, height: 40 };
const [ACROSS, DOWN, MARGIN] = [34, 14, 14];

export interface Placed {
  x: number;
  y: number;
}
export interface Arranged {
  places: Map<string, Placed>;
  width: number;
  height: number;
}

/** Columns by how many operators away; within one, each stands near what it is joined to. */
export function arrange(of: Relations, width: number, height: number): Arranged {
  const levels = new Map<number, string[]>();
  for (const [id, level] of apart(of)) levels.set(level, [...(levels.get(level) ?? []), id]);
  const order = [...levels.keys()].sort((a, b) => a - b);
  const joined = new Map<string, string[]>();
  for (const { start, end } of of.edges) {
    joined.set(start, [...(joined.get(start) ?? []), end]);
    joined.set(end, [...(joined.get(end) ?? []), start]);
  }
  const rank = new Map<string, number>();
  const number = (ids: string[]): void => ids.forEach((id, at) => rank.set(id, at - (ids.length - 1) / 2));
  levels.forEach(number);
  const outward = [...order].sort((a, b) => Math.abs(a) - Math.abs(b));
  for (let round = 0; round < 3; round++) {
    for (const level of outward) {
      const middle = (id: string): number => {
        const near = (joined.get(id) ?? []).map((other) => rank.get(other) ?? 0);
        return near.length ? near.reduce((sum, one) => sum + one, 0) / near.length : 0;
      };
      const sorted = levels
        .get(level)!
        .map((id) => ({ id, at: middle(id) }))
        .sort((a, b) => a.at - b.at)
        .map(({ id }) => id);
      levels.set(level, sorted);
      number(sorted);
    }
  }
  const tallest = Math.max(...[...levels.values()].map((ids) => ids.length));
  const whole = {
    width: order.length * (BOX.width + ACROSS) - ACROSS + 2 * MARGIN,
    height: tallest * (BOX.height + DOWN) - DOWN + 2 * MARGIN,
  };
  const [left, middle] = [Math.max(0, (width - whole.width) / 2), Math.max(height - 4, whole.height) / 2];
  const places = new Map<string, Placed>();
  order.forEach((level, column) => {
    for (const id of levels.get(level)!) {
      places.set(id, {
        x: left + MARGIN + column * (BOX.width + ACROSS),
        y: middle + rank.get(id)! * (BOX.height + DOWN) - BOX.height / 2,
      });
    }
  });
  return { places, width: Math.max(width, whole.width), height: Math.max(height - 4, whole.height) };
}

const FARTHEST = 24;

/** How far each is from the centre by its longest way, so that every edge leads to the right. */
function apart(of: Relations): Map<string, number> {
  const level = new Map(of.values.map((one) => [one.id, one.level]));
  for (let round = 0; round < FARTHEST; round++) {
    let moved = false;
    for (const { start, end } of of.edges) {
      const [from, to] = [level.get(start)!, level.get(end)!];
      if (from < to) continue;
      if (to > 0 || (to === 0 && from > 0)) level.set(end, from + 1);
      else level.set(start, to - 1);
      moved = true;
    }
    if (!moved) break;
  }
  return level;
}
