// Control of a live training: shown only while one is connected.
import { useState } from "preact/hooks";
import { ask, revision, runPath, useAnswer } from "../api/client";
import { refusal, tell, type Verb } from "../api/control";
import type { LiveRank, LiveState } from "../api/types";
import { useLooking } from "../state/looking";
import { select } from "../state/place";
import { useStore } from "../state/store";
import { named, useTexts } from "../texts";

const MOST_STEPS = 1_000_000;

export const isHeld = (rank: LiveRank): boolean => rank.state === "paused" || rank.state === "waiting";
const isPaused = (live: LiveState | undefined): boolean => live?.ranks.some(isHeld) ?? false;

/** The keys: pause or continue, or the next operator. */
export async function sendToggle(run: string, verb: string): Promise<void> {
  const live = await ask<LiveState>(`${runPath(run)}/live`, revision.get());
  if (verb === "next") await tell(run, "next");
  else await tell(run, isPaused(live) ? "continue" : "pause");
}

export function Control() {
  const t = useTexts();
  const { place } = useLooking();
  const live = useAnswer<LiveState>(`${runPath(place.run)}/live`);
  const problem = useStore(refusal);
  const [steps, setSteps] = useState(1);
  const paused = isPaused(live.data);
  const rank = live.data?.ranks.find((found) => found.rank === place.rank);
  const standing = rank?.node;
  const send =
    (verb: Verb, more: Record<string, unknown> = {}) =>
    () =>
      void tell(place.run, verb, more);
  return (
    <span class="control" role="toolbar" aria-label={t("control")}>
      {paused ? (
        <button class="main" onClick={send("continue")} title={t("continue_tip")}>
          ▶ {t("continue")}
        </button>
      ) : (
        <button onClick={send("pause")} title={t("pause_tip")}>
          ⏸ {t("pause")}
        </button>
      )}
      <form
        class="joined"
        title={t("step_tip")}
        onSubmit={(e) => (e.preventDefault(), send("step", { count: steps })())}
      >
        <input
          type="number"
          min="1"
          max={MOST_STEPS}
          value={steps}
          aria-label={t("step_count")}
          onInput={(e) => setSteps(Math.max(1, Math.floor(e.currentTarget.valueAsNumber) || 1))}
        />
        <button disabled={!paused}>{t("one_step")}</button>
      </form>
      <button disabled={!paused} onClick={send("next")} title={t("next_tip")}>
        {t("next_node")}
      </button>
      {standing && (
        <button title={standing.name} onClick={() => select(standing.node, { step: null })}>
          {t("stands_here")}
        </button>
      )}
      <Stop onStop={send("terminate")} />
      {problem && (
        <button class="problem" title={t("close")} onClick={() => refusal.set("")}>
          <span role="alert">{problem}</span>
        </button>
      )}
    </span>
  );
}

/** What to do with a training that is held: go on, or end it. */
export function Onward() {
  const t = useTexts();
  const { place, run } = useLooking();
  const live = useAnswer<LiveState>(run?.live ? `${runPath(place.run)}/live` : null);
  if (!run?.live || !isPaused(live.data)) return null;
  return (
    <span class="onward">
      <button class="main" onClick={() => void tell(place.run, "continue")} title={t("continue_tip")}>
        ▶ {t("continue")}
      </button>
      <Stop onStop={() => void tell(place.run, "terminate")} />
    </span>
  );
}

/** Ends training when asked twice. */
function Stop({ onStop }: { onStop: () => void }) {
  const t = useTexts();
  const [sure, setSure] = useState(false);
  if (!sure)
    return (
      <button onClick={() => setSure(true)} title={t("stop_tip")}>
        ■ {t("stop")}
      </button>
    );
  return (
    <span class="sure" onKeyDown={(e) => e.key === "Escape" && setSure(false)}>
      {t("stop_sure")}
      <button ref={(button) => button?.focus()} onClick={() => (setSure(false), onStop())}>
        {t("stop_yes")}
      </button>
      <button onClick={() => setSure(false)}>{t("stop_no")}</button>
    </span>
  );
}

/** Why a training holds, and how its other ranks stand. */
export function Holding() {
  const t = useTexts();
  const { place, run } = useLooking();
  const live = useAnswer<LiveState>(run?.live ? `${runPath(place.run)}/live` : null);
  const ranks = live.data?.ranks ?? [];
  const rank = ranks.find((found) => found.rank === place.rank) ?? ranks[0];
  if (!run?.live || !rank || (ranks.length < 2 && !isHeld(rank))) return null;
  return (
    <p class="holding" role="status">
      {isHeld(rank) && (
        <span title={rank.reason}>
          {t("held_at", rank.step)} · {rank.node ? rank.node.name : rank.reason}
        </span>
      )}
      <span class="grow" />
      {ranks.length > 1 &&
        ranks.map((each) => (
          <span key={each.rank} class={`state state-${each.state}`} title={each.reason}>
            <span class="dot" />
            {t("rank")} {each.rank}: {named("state", each.state)}, {t("step")} {each.step}
          </span>
        ))}
    </p>
  );
}
