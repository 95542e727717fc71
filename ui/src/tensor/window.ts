// The part of a tensor's rows and columns that the heat map shows.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Layout } from "../api/types";
import { change } from "./state";

export interface Window {
  top: number;
  left: number;
  height: number;
  width: number;
}

const LEAST = 4;
const SETTLE_MS = 160;

export const wholeOf = (layout: Layout): Window => ({
  top: 0,
  left: 0,
  height: layout.rows,
  width: layout.columns,
});

export function parseWindow(text: string, layout: Layout): Window {
  const numbers = text.split(".").map(Number);
  if (numbers.length !== 4 || !numbers.every((one) => Number.isInteger(one) && one >= 0))
    return wholeOf(layout);
  return inside({ top: numbers[0]!, left: numbers[1]!, height: numbers[2]!, width: numbers[3]! }, layout);
}

function formatWindow(window: Window, layout: Layout): string {
  const { top, left, height, width } = inside(window, layout);
  const isWhole = height >= layout.rows && width >= layout.columns;
  return isWhole ? "" : [top, left, height, width].map(Math.round).join(".");
}

/** The same without leaving the tensor. */
function inside(window: Window, layout: Layout): Window {
  const height = Math.min(layout.rows, Math.max(Math.min(LEAST, layout.rows), window.height));
  const width = Math.min(layout.columns, Math.max(Math.min(LEAST, layout.columns), window.width));
  return {
    top: Math.min(layout.rows - height, Math.max(0, window.top)),
    left: Math.min(layout.columns - width, Math.max(0, window.left)),
    height,
    width,
  };
}

/** A window of about this many cells around an element. */
export function around(layout: Layout, row: number, column: number): string {
  const [height, width] = [Math.min(layout.rows, 48), Math.min(layout.columns, 96)];
  return formatWindow({ top: row - height / 2, left: column - width / 2, height, width }, layout);
}

/** What is shown now, and how to move: the address follows when the movement has ended. */
export function useWindow(layout: Layout, text: string): [Window, (next: (old: Window) => Window) => void] {
  const [moved, setMoved] = useState<Window | null>(null);
  const timer = useRef(0);
  useEffect(() => setMoved(null), [text, layout]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const shown = moved ?? parseWindow(text, layout);
  const move = (next: (old: Window) => Window): void => {
    setMoved((old) => {
      const found = inside(next(old ?? parseWindow(text, layout)), layout);
      clearTimeout(timer.current);
      timer.current = window.setTimeout(() => change({ window: formatWindow(found, layout) }), SETTLE_MS);
      return found;
    });
  };
  return [shown, move];
}

/** The same, zoomed by a factor around a place between 0 and 1. */
export function zoomed(window: Window, by: number, x: number, y: number): Window {
  const [height, width] = [window.height * by, window.width * by];
  return {
    top: window.top + (window.height - height) * y,
    left: window.left + (window.width - width) * x,
    height,
    width,
  };
}
