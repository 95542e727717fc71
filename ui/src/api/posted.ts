// Questions with a body: asked after a short rest, the last one counts.
import { useEffect, useRef, useState } from "preact/hooks";
import { request, revision } from "./client";
import { useStore } from "../state/store";

const REST_MS = 250;

export interface Posted<T> {
  data: T | undefined;
  error: string;
  /** Whether an answer is awaited. */
  busy: boolean;
}

/** The answer to a question that is being written; what came before stays until the next has come. */
export function usePosted<T>(path: string | null, body: unknown, live = false): Posted<T> {
  const now = useStore(revision);
  const text = JSON.stringify(body);
  const [found, setFound] = useState<Posted<T>>({ data: undefined, error: "", busy: false });
  const latest = useRef(0);
  useEffect(() => {
    const number = ++latest.current;
    if (path === null) {
      setFound({ data: undefined, error: "", busy: false });
      return;
    }
    setFound((old) => ({ ...old, busy: true }));
    const timer = setTimeout(() => {
      request<T>("POST", path, body).then(
        (data) => number === latest.current && setFound({ data, error: "", busy: false }),
        (problem: Error) =>
          number === latest.current &&
          setFound((old) => ({ data: old.data, error: problem.message, busy: false })),
      );
    }, REST_MS);
    return () => clearTimeout(timer);
  }, [path, text, live ? now : 0]);
  return found;
}
