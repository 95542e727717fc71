// The wheel over an element, which may keep the page from scrolling.
import { useEffect, useRef } from "preact/hooks";

export function useWheel<T extends HTMLElement>(
  box: preact.RefObject<T | null>,
  onWheel: (event: WheelEvent, element: T) => void,
): void {
  const latest = useRef(onWheel);
  latest.current = onWheel;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const listen = (event: WheelEvent): void => latest.current(event, element);
    element.addEventListener("wheel", listen, { passive: false });
    return () => element.removeEventListener("wheel", listen);
  }, []);
}
