// Control of a live training: shown only while one is connected.
import { useState } from "preact/hooks";
import { ask, revision, runPath, useAnswer } from "../api/client";
import { tell, type LiveState, type Verb } from "../api/control";
import { useLooking } from "../state/looking";
import { select } from "../state/place";
import { named, useTexts } from "../texts";

const isPaused = (live: LiveState | undefined): boolean =>
  live?.ranks.some((rank) => rank.state === "paused" || rank.state === "waiting") ?? false;

/** The keys: pause or continue, or the next operator. */
export async function sendToggle(run: string, verb: string): Promise<void> {
  const live = await ask<LiveState>(`${runPath(run)}/live`, revision.get());
  if (verb === "next") await tell(run, "next");
  else await tell(run, isPaused(live) ? "continue" : "pause");
  revision.set(revision.get() + 1);
}

export function Control() {
  const t = useTexts();
  const { place } = useLooking();
  const live = useAnswer<LiveState>(`${runPath(place.run)}/live`);
  const [problem, setProblem] = useState("");
  const paused = isPaused(live.data);
  const standing = live.data?.ranks.find((rank) => rank.rank === place.rank)?.node;
  const send =
    (verb: Verb, more: Record<string, unknown> = {}) =>
    () => {
      tell(place.run, verb, more).then(
        () => (setProblem(""), revision.set(revision.get() + 1)),
        (error: Error) => setProblem(error.message),
      );
    };
  const states = live.data?.ranks.map(
    (rank) =>
      `${t("rank")} ${rank.rank}: ${named("state", rank.state)}${rank.step === null ? "" : `, ${t("step")} ${rank.step}`}`,
  );
  return (
    <span class="control" title={states?.join("\n")}>
      {paused ? (
        <button onClick={send("continue")}>▶ {t("continue")}</button>
      ) : (
        <button onClick={send("pause")}>⏸ {t("pause")}</button>
      )}
      <button disabled={!paused} onClick={send("step", { count: 1 })}>
        {t("one_step")}
      </button>
      <button disabled={!paused} onClick={send("next")}>
        {t("next_node")}
      </button>
      {standing && (
        <button title={standing.name} onClick={() => select(standing.node, { step: null })}>
          {t("stands_here")}
        </button>
      )}
      <button onClick={() => confirm(t("stop_sure")) && send("terminate")()}>■ {t("stop")}</button>
      {problem && (
        <span class="problem" role="alert">
          {problem}
        </span>
      )}
    </span>
  );
}
