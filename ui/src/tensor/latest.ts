// The answer to the latest question of many: pictures are large, so none but the last is kept.
import { useEffect, useRef, useState } from "preact/hooks";
import { Refused, request, revision, type Answer } from "../api/client";
import { useStore } from "../state/store";

/** Ask, one question at a time; those that were overtaken are left out. */
export function useLatest<T>(path: string | null, live: boolean): Answer<T> {
  const now = useStore(revision);
  const [shown, show] = useState<{ path: string; data?: T; error?: Refused }>();
  const state = useRef({ wanted: "", busy: false, mounted: true });
  useEffect(() => {
    state.current.mounted = true;
    return () => void (state.current.mounted = false);
  }, []);
  useEffect(() => {
    const s = state.current;
    s.wanted = path ?? "";
    if (!s.busy) void pump();
    async function pump(): Promise<void> {
      s.busy = true;
      let asked = "";
      while (s.mounted && s.wanted && s.wanted !== asked) {
        asked = s.wanted;
        try {
          const data = await request<T>("GET", asked);
          if (s.mounted) show({ path: asked, data });
        } catch (problem) {
          const error = problem instanceof Refused ? problem : new Refused(0, String(problem));
          if (s.mounted && asked === s.wanted) show({ path: asked, error });
        }
      }
      s.busy = false;
    }
  }, [path, live ? now : 0]);
  return { data: shown?.data, error: shown?.error, stale: shown?.path !== path };
}
