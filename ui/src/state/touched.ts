// Whether a person has touched this page: before that nobody is there who could answer.
import { store } from "./store";

export const touched = store(false);

const SIGNS = ["pointerdown", "keydown", "wheel"] as const;

function touch(event: Event): void {
  if (!event.isTrusted) return;
  for (const sign of SIGNS) document.removeEventListener(sign, touch, true);
  touched.set(true);
}

for (const sign of SIGNS) document.addEventListener(sign, touch, { capture: true, passive: true });
