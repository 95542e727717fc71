// Very wide screens show everything larger (styles/base.css): a pixel here is then several of the screen.

/** How many pixels of the screen one of the page has across. */
export function magnification(element: Element): number {
  const { width } = element.getBoundingClientRect();
  return element.clientWidth && width ? width / element.clientWidth : 1;
}

/** How many points a canvas needs for a pixel of the page, to be sharp. */
export const sharpness = (element: Element): number => (devicePixelRatio || 1) * magnification(element);

/** Where the mouse is in an element, in pixels of the page. */
export function pointIn(event: MouseEvent, element: Element): { x: number; y: number } {
  const [rect, by] = [element.getBoundingClientRect(), magnification(element)];
  return { x: (event.clientX - rect.left) / by, y: (event.clientY - rect.top) / by };
}
