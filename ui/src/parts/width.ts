// The width of an element, measured.
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export function useSize(): [preact.RefObject<HTMLDivElement | null>, number, number] {
  const box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState<[number, number]>([0, 0]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = (): void =>
      setSize((old) =>
        old[0] === element.clientWidth && old[1] === element.clientHeight
          ? old
          : [element.clientWidth, element.clientHeight],
      );
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    measure();
    return () => watcher.disconnect();
  }, []);
  return [box, ...size];
}

export function useWidth(): [preact.RefObject<HTMLDivElement | null>, number] {
  const [box, width] = useSize();
  return [box, width];
}
