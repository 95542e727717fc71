// A list that the server gives in pages: those that are seen are asked for.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ask, revision } from "../api/client";
import { useStore } from "../state/store";

const PAGE = 100;

export interface Paged<T, A = unknown> {
  total: number | undefined;
  latest: A | undefined;
  at: (index: number) => T | undefined;
  see: (first: number, last: number) => void;
  error: string;
}

/** `path` makes the question for a page; `rows` takes them from its answer. */
export function usePaged<A extends { total: number }, T>(
  key: string,
  path: (first: number, count: number) => string,
  rows: (answer: A) => T[],
  live = true,
): Paged<T, A> {
  const now = useStore(revision);
  const [latest, setLatest] = useState<A>();
  const [error, setError] = useState("");
  const [, redraw] = useState(0);
  const state = useRef({ key: "", pages: new Map<number, T[]>(), seen: [0, 0] as [number, number] });
  const load = useCallback(
    (page: number, at: number) => {
      const asked = key;
      ask<A>(path(page * PAGE, PAGE), at).then(
        (answer) => {
          if (state.current.key !== asked) return;
          state.current.pages.set(page, rows(answer));
          setLatest(answer);
          setError("");
          redraw((n) => n + 1);
        },
        (problem: Error) => state.current.key === asked && setError(problem.message),
      );
    },
    [key],
  );
  useEffect(() => {
    if (state.current.key !== key) {
      state.current = { key, pages: new Map(), seen: [0, 0] };
    }
    const [first, last] = state.current.seen;
    for (let page = first; page <= last; page++) load(page, live ? now : 0);
  }, [key, live ? now : 0]);
  const see = useCallback(
    (first: number, last: number) => {
      const seen: [number, number] = [Math.floor(first / PAGE), Math.floor(Math.max(first, last - 1) / PAGE)];
      state.current.seen = seen;
      for (let page = seen[0]; page <= seen[1]; page++) {
        if (!state.current.pages.has(page)) load(page, live ? revision.get() : 0);
      }
    },
    [key],
  );
  const at = (index: number): T | undefined =>
    state.current.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  return { total: latest?.total, latest, at, see, error };
}

/** The rows that were asked for so far. */
export function seen<T>(list: Paged<T>): T[] {
  const found: T[] = [];
  for (let index = 0; index < (list.total ?? 0); index++) {
    const row = list.at(index);
    if (row !== undefined) found.push(row);
  }
  return found;
}
