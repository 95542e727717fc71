// Menus that open at a button and close by Escape or a press elsewhere.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Menu {
  open: boolean;
  setOpen: (open: boolean) => void;
  /** The element around button and menu. */
  box: RefObject<HTMLDivElement | null>;
}

export function useMenu(): Menu {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useClosing(box, open, () => setOpen(false));
  return { open, setOpen, box };
}

/** Close something that is open, by Escape or a press outside it. */
export function useClosing(box: RefObject<HTMLElement | null>, open: boolean, close: () => void): void {
  useEffect(() => {
    if (!open) return;
    const onEvent = (event: Event): void => {
      if (event instanceof KeyboardEvent && event.key !== "Escape") return;
      if (event instanceof PointerEvent && box.current?.contains(event.target as Node)) return;
      close();
    };
    document.addEventListener("pointerdown", onEvent);
    document.addEventListener("keydown", onEvent);
    return () => {
      document.removeEventListener("pointerdown", onEvent);
      document.removeEventListener("keydown", onEvent);
    };
  }, [open]);
}
