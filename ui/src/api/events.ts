// The stream of changes: told at most once a second, and not while nobody looks.
import { useEffect } from "preact/hooks";
import { store, useStore } from "../state/store";
import { touched } from "../state/touched";
import { revision, runPath } from "./client";

const REST_MS = 1000;

export interface RankNews {
  rank: number;
  state: string;
  step: number | null;
  nodes: number;
  hits: number;
}
export interface News {
  state: string;
  ranks: RankNews[];
}

export const news = store<News | null>(null);
export const connected = store(true);

/** Listen to a run, once it is there; a person who has touched the page counts as looking. */
export function useEvents(run: string, isThere: boolean): void {
  const looks = useStore(touched);
  useEffect(() => news.set(null), [run]);
  useEffect(() => {
    if (!run || !isThere) return;
    let source: EventSource;
    let last: News | null = null;
    let first = true;
    let timer = 0;
    let told = 0;
    const tell = (): void => {
      timer = 0;
      if (document.hidden || !last) return;
      told = Date.now();
      news.set(last);
      if (!first) revision.set(revision.get() + 1);
      first = false;
    };
    const plan = (): void => {
      if (!timer) timer = window.setTimeout(tell, Math.max(0, told + REST_MS - Date.now()));
    };
    let again = 0;
    const listen = (): void => {
      source = new EventSource(`/api/v1${runPath(run)}/events${looks ? "?watching=true" : ""}`);
      source.onmessage = (event: MessageEvent<string>) => {
        last = JSON.parse(event.data) as News;
        connected.set(true);
        plan();
      };
      source.onopen = () => connected.set(true);
      source.onerror = () => {
        connected.set(false);
        if (source.readyState === EventSource.CLOSED) again = window.setTimeout(listen, REST_MS);
      };
    };
    listen();
    document.addEventListener("visibilitychange", plan);
    return () => {
      source.close();
      clearTimeout(timer);
      clearTimeout(again);
      document.removeEventListener("visibilitychange", plan);
      connected.set(true);
    };
  }, [run, isThere, looks]);
}
