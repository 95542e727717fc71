// How large everything is: screens of many pixels that the system does not enlarge show the page as one
// of 1,920 × 1,080 would. It is set here, and read by styles as --zoom.
import { store } from "./store";

const USUAL = { width: 1920, height: 1080 };
/** Columns, top bar and lists need so many pixels of the page. */
const LEAST_WIDTH = 1344;
const QUARTER = 4;

/** By how much, for a screen and a window of these many pixels. */
export function scaleOf(screen: { width: number; height: number }, windowWidth: number): number {
  const wanted = Math.min(screen.width / USUAL.width, screen.height / USUAL.height);
  const possible = Math.min(wanted, windowWidth / LEAST_WIDTH);
  return Math.max(1, Math.floor(possible * QUARTER) / QUARTER);
}

let ratio = devicePixelRatio;
/** What is shown now: whoever drew for another one has to draw again. */
export const scale = store(1);

function apply(): void {
  const now = scaleOf(screen, innerWidth);
  document.documentElement.style.setProperty("--zoom", String(now));
  scale.set(now);
}

function onResize(): void {
  // With another ratio it is the person who enlarges: that must not be taken back here.
  if (devicePixelRatio === ratio) apply();
  ratio = devicePixelRatio;
}

apply();
addEventListener("resize", onResize);
