// Draws a tile on a canvas: colours, marks for what is beyond the scale, patterns for what is not finite.
import type { Tile } from "../api/types";
import { value } from "../format";
import { sharpness } from "../parts/screen";
import { colour } from "../state/theme";
import { shade, type Rgb, type Scale } from "./scale";
import type { Window } from "./window";

const PATTERN_PX = 5;
/** Up to so many small cells that are not finite are made larger, with a rim. */
const RIMMED = 400;

export interface Drawing {
  tile: Tile;
  window: Window;
  scale: Scale;
  dark: boolean;
  width: number;
  height: number;
  /** The element that was jumped to. */
  mark: { row: number; column: number } | null;
}

/** The number that stands for a cell: the one farther from zero. */
export function cellValue(tile: Tile, cell: number): number | null {
  const [low, high] = [value(tile.low[cell]), value(tile.high[cell])];
  if (low === null || high === null) return null;
  return Math.abs(low) > Math.abs(high) ? low : high;
}

export function draw(canvas: HTMLCanvasElement, drawing: Drawing): void {
  const { tile, window, width, height } = drawing;
  const ratio = sharpness(canvas);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const brush = canvas.getContext("2d");
  if (!brush || !tile.rows || !tile.columns) return;
  brush.scale(ratio, ratio);
  const [perColumn, perRow] = [width / window.width, height / window.height];
  const cell = { width: tile.cell[1]! * perColumn, height: tile.cell[0]! * perRow };
  const [x, y] = [(tile.left - window.left) * perColumn, (tile.top - window.top) * perRow];
  brush.imageSmoothingEnabled = false;
  brush.drawImage(picture(drawing), x, y, tile.columns * cell.width, tile.rows * cell.height);
  const ink = colour("ink");
  const isLarge = Math.min(cell.width, cell.height) >= PATTERN_PX;
  const bad: [number, number, string][] = [];
  for (let index = 0; index < tile.low.length; index++) {
    const left = x + (index % tile.columns) * cell.width;
    const top = y + Math.floor(index / tile.columns) * cell.height;
    if (tile.nan[index] || tile.posinf[index] || tile.neginf[index]) {
      if (isLarge) drawBad(brush, tile, index, left, top, cell.width, cell.height);
      else bad.push([left + cell.width / 2, top + cell.height / 2, tile.nan[index] ? "nan" : "bad"]);
      continue;
    }
    const found = cellValue(tile, index);
    if (found === null || Math.abs(drawing.scale.share(found)) <= 1.000001) continue;
    const size = isLarge ? 3 : 2;
    brush.fillStyle = ink;
    brush.fillRect(left + cell.width / 2 - size / 2, top + cell.height / 2 - size / 2, size, size);
  }
  if (bad.length <= RIMMED) drawRimmed(brush, bad);
  if (drawing.mark) {
    const left = (drawing.mark.column - window.left) * perColumn;
    const top = (drawing.mark.row - window.top) * perRow;
    const [across, down] = [Math.max(perColumn, 7), Math.max(perRow, 7)];
    brush.lineWidth = 2;
    brush.strokeStyle = colour("panel");
    brush.strokeRect(
      left - 2 - (across - perColumn) / 2,
      top - 2 - (down - perRow) / 2,
      across + 4,
      down + 4,
    );
    brush.strokeStyle = ink;
    brush.strokeRect(left - (across - perColumn) / 2, top - (down - perRow) / 2, across, down);
  }
}

/** Small cells that must be seen: all rims first, so that neighbours stay one spot. */
function drawRimmed(brush: CanvasRenderingContext2D, places: [number, number, string][]): void {
  brush.fillStyle = colour("panel");
  for (const [x, y] of places) brush.fillRect(x - 4, y - 4, 8, 8);
  for (const [x, y, name] of places) {
    brush.fillStyle = colour(name);
    brush.fillRect(x - 2.5, y - 2.5, 5, 5);
  }
}

/** One point for each cell. */
function picture({ tile, scale, dark }: Drawing): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = tile.columns;
  canvas.height = tile.rows;
  const brush = canvas.getContext("2d")!;
  const image = brush.createImageData(tile.columns, tile.rows);
  const [nan, bad] = [rgbOf(colour("nan")), rgbOf(colour("bad"))];
  for (let index = 0; index < tile.low.length; index++) {
    let rgb: Rgb;
    if (tile.nan[index]) rgb = nan;
    else if (tile.posinf[index] || tile.neginf[index]) rgb = bad;
    else rgb = shade(scale.share(cellValue(tile, index) ?? 0), dark);
    image.data.set([...rgb, 255], index * 4);
  }
  brush.putImageData(image, 0, 0);
  return canvas;
}

/** NaN: a cross on its colour; +Inf and -Inf: slanted lines, each its own way. */
function drawBad(
  brush: CanvasRenderingContext2D,
  tile: Tile,
  index: number,
  left: number,
  top: number,
  width: number,
  height: number,
): void {
  brush.save();
  brush.beginPath();
  brush.rect(left, top, width, height);
  brush.clip();
  brush.strokeStyle = colour("panel");
  brush.lineWidth = 1.5;
  brush.beginPath();
  if (tile.nan[index]) {
    brush.moveTo(left + 1, top + 1);
    brush.lineTo(left + width - 1, top + height - 1);
    brush.moveTo(left + width - 1, top + 1);
    brush.lineTo(left + 1, top + height - 1);
  } else {
    for (let shift = -height; shift < width; shift += 5) {
      const up = tile.posinf[index]! > 0;
      brush.moveTo(left + shift, up ? top + height : top);
      brush.lineTo(left + shift + height, up ? top : top + height);
    }
  }
  brush.stroke();
  brush.restore();
}

export function rgbOf(text: string): Rgb {
  const match = /^#(..)(..)(..)$/.exec(text);
  return match ? [parseInt(match[1]!, 16), parseInt(match[2]!, 16), parseInt(match[3]!, 16)] : [194, 0, 122];
}
