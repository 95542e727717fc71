// Questions to the server: each asked once, kept a while, and asked again when more was recorded.
import { useEffect, useRef, useState } from "preact/hooks";
import { store, useStore } from "../state/store";

const API = "/api/v1";
const KEPT = 150;

/** Counts up when more was recorded, at most once a second. */
export const revision = store(0);

interface Entry {
  at: number;
  answer: Promise<unknown>;
}
const entries = new Map<string, Entry>();

export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** An answer to a question, from the server or kept from before. */
export function ask<T>(path: string, at = 0): Promise<T> {
  const entry = entries.get(path);
  if (entry && entry.at >= at) {
    entries.delete(path);
    entries.set(path, entry);
    return entry.answer as Promise<T>;
  }
  const answer = request<T>("GET", path);
  entries.set(path, { at, answer });
  answer.catch(() => {
    if (entries.get(path)?.answer === answer) entries.delete(path);
  });
  while (entries.size > KEPT) entries.delete(entries.keys().next().value!);
  return answer;
}

export async function request<T>(method: string, path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method, headers: { accept: "application/json" } };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...init.headers, "content-type": "application/json" };
  }
  let response: Response;
  try {
    response = await fetch(API + path, init);
  } catch {
    throw new Refused(0, "");
  }
  const text = await response.text();
  if (!response.ok) throw new Refused(response.status, problemIn(text));
  return JSON.parse(text) as T;
}

function problemIn(text: string): string {
  try {
    const found: unknown = JSON.parse(text);
    if (found && typeof found === "object" && "error" in found) return String(found.error);
  } catch {
    // plain text
  }
  return text.slice(0, 500);
}

export interface Answer<T> {
  /** The last answer, also while the next one is awaited, so that nothing jumps. */
  data: T | undefined;
  error: Refused | undefined;
  /** Whether `data` answers an earlier question. */
  stale: boolean;
}

/** The answer to a question; at most one request is under way for each that asks. */
export function useAnswer<T>(path: string | null, live = true): Answer<T> {
  const now = useStore(revision);
  const [shown, show] = useState<{ path: string; data?: T; error?: Refused } | null>(null);
  const state = useRef({ busy: false, wanted: "", at: 0, done: "", doneAt: -1, mounted: true });
  useEffect(() => {
    state.current.mounted = true;
    return () => void (state.current.mounted = false);
  }, []);
  useEffect(() => {
    const s = state.current;
    s.wanted = path ?? "";
    s.at = live ? now : s.done === path ? Math.max(0, s.doneAt) : 0;
    if (!s.busy) void pump();
    async function pump(): Promise<void> {
      while (s.mounted && s.wanted && (s.wanted !== s.done || s.at > s.doneAt)) {
        const [asked, at] = [s.wanted, s.at];
        s.busy = true;
        let error: Refused | undefined;
        let data: T | undefined;
        try {
          data = await ask<T>(asked, at);
        } catch (problem) {
          error = problem instanceof Refused ? problem : new Refused(0, String(problem));
        }
        s.busy = false;
        s.done = asked;
        s.doneAt = at;
        if (!s.mounted) return;
        if (asked === s.wanted || !error) {
          show((old) => (error && old?.path === asked ? { ...old, error } : { path: asked, data, error }));
        }
      }
    }
  }, [path, live ? now : 0]);
  if (path === null) return { data: undefined, error: undefined, stale: false };
  const stale = shown?.path !== path;
  return { data: shown?.data, error: stale ? undefined : shown?.error, stale };
}

/** A path with its question; what is empty is left out. */
export function question(path: string, query: Record<string, string | number | boolean | null>): string {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== "" && value !== false) found.set(key, String(value));
  }
  const text = found.toString();
  return text ? `${path}?${text}` : path;
}

export const runPath = (run: string): string => `/runs/${encodeURIComponent(run)}`;
export const rankPath = (run: string, rank: number): string => `${runPath(run)}/ranks/${rank}`;
export const apiLink = (path: string): string => API + path;
