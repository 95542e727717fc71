// Questions with a body, one at a time: asked after a short rest, the latest counts.
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

interface Asked {
  path: string;
  text: string;
  at: number;
}

const isSame = (one: Asked | null, other: Asked | null): boolean =>
  one?.path === other?.path && one?.text === other?.text && one?.at === other?.at;

/** The answer to a question that is being written; what came before stays until the next has come. */
export function usePosted<T>(path: string | null, body: unknown, live = false): Posted<T> {
  const now = useStore(revision);
  const text = JSON.stringify(body);
  const [found, setFound] = useState<Posted<T>>({ data: undefined, error: "", busy: false });
  const state = useRef<{ wanted: Asked | null; done: Asked | null; busy: boolean; mounted: boolean }>({
    wanted: null,
    done: null,
    busy: false,
    mounted: true,
  });
  useEffect(() => () => void (state.current.mounted = false), []);
  useEffect(() => {
    const s = state.current;
    s.wanted = path === null ? null : { path, text, at: live ? now : 0 };
    if (isSame(s.wanted, s.done) || s.busy) return;
    setFound((old) => ({ ...old, busy: s.wanted !== null }));
    const timer = setTimeout(() => void pump(), REST_MS);
    return () => clearTimeout(timer);
    async function pump(): Promise<void> {
      while (s.mounted && s.wanted && !isSame(s.wanted, s.done)) {
        const asked = s.wanted;
        s.busy = true;
        let answer: Partial<Posted<T>>;
        try {
          answer = { data: await request<T>("POST", asked.path, JSON.parse(asked.text)), error: "" };
        } catch (problem) {
          answer = { error: problem instanceof Error ? problem.message : String(problem) };
        }
        s.busy = false;
        s.done = asked;
        const latest = s.wanted?.path === asked.path && s.wanted.text === asked.text;
        if (s.mounted && latest) setFound((old) => ({ ...old, ...answer, busy: false }));
      }
    }
  }, [path, text, live ? now : 0]);
  return found;
}
