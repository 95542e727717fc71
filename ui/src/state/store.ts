// A value that components watch.
import { useEffect, useState } from "preact/hooks";

export interface Store<T> {
  get(): T;
  set(value: T): void;
  watch(listener: () => void): () => void;
}

export function store<T>(first: T): Store<T> {
  let value = first;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(value, next)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    watch(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useStore<T>(from: Store<T>): T {
  const [, redraw] = useState(0);
  useEffect(() => from.watch(() => redraw((count) => count + 1)), [from]);
  return from.get();
}
