// The watchpoints of a run: switched on and off, changed, removed, checked again.
import { useState } from "preact/hooks";
import { runPath, useAnswer } from "../api/client";
import type { ConditionFacts, NodeDetails } from "../api/types";
import { changeWatch, type Change, type WatchpointLine } from "../api/watch";
import { CopyMenu } from "../parts/copy";
import { Empty, Waiting } from "../parts/empty";
import { watchCode } from "../python";
import { watchEdit, watchNew } from "../state/draft";
import { aboutStep, useLooking } from "../state/looking";
import { go } from "../state/place";
import { useTexts } from "../texts";
import { RecheckPanel, useRecheck } from "./recheck";
import { inWords, selectionWords, summaryOf } from "./watch_words";
import { WatchMenu } from "./watch_menu";

export function WatchList() {
  const t = useTexts();
  const { place, run } = useLooking();
  const answer = useAnswer<WatchpointLine[]>(`${runPath(place.run)}/watchpoints`);
  const conditions = useAnswer<ConditionFacts[]>("/conditions", false);
  const [problem, setProblem] = useState("");
  const recheck = useRecheck();
  if (!answer.data) return <Waiting answer={answer} />;
  const points = answer.data;
  const change = (order: Change): void => {
    changeWatch(place.run, order).then(
      () => setProblem(""),
      (error: Error) => setProblem(error.message),
    );
  };
  return (
    <>
      <div class="listhead watchhead">
        <button class="main" onClick={() => watchNew()}>
          + {t("watch_new")}
        </button>
        <button disabled={!points.length || recheck.busy} title={t("recheck_tip")} onClick={recheck.run}>
          {t("recheck")}
        </button>
        <span class="grow" />
        <WatchMenu points={points} onChange={change} onProblem={setProblem} />
        <CopyMenu json={() => points} python={() => watchCode(run?.path ?? "last", points)} />
      </div>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {!run?.live && <p class="faint note">{t("watch_offline")}</p>}
      <div class="scroll" role="list" aria-label={t("watch_place")}>
        {points.length === 0 && <Empty say="watch_empty" />}
        {points.map((point) => (
          <Watchpoint
            key={point.id}
            point={point}
            conditions={conditions.data}
            outdated={recheck.isOutdated(point)}
            hits={recheck.hitsOf(point.id)}
            onChange={change}
          />
        ))}
        <RecheckPanel of={recheck} points={points} />
      </div>
    </>
  );
}

interface WatchpointProps {
  point: WatchpointLine;
  conditions: ConditionFacts[] | undefined;
  outdated: boolean;
  hits: number | undefined;
  onChange: (order: Change) => void;
}

function Watchpoint({ point, conditions, outdated, hits, onChange }: WatchpointProps) {
  const t = useTexts();
  const { place } = useLooking();
  const on = point.enabled !== false;
  const words = inWords(point, conditions);
  const where = selectionWords(point, t);
  const part = (parts: Partial<WatchpointLine>): void => onChange({ action: "change", id: point.id, parts });
  return (
    <div
      class={place.view === "edit" && place.watchpoint === point.id ? "item watchitem chosen" : "item watchitem"}
      role="listitem"
      data-watchpoint={point.id}
    >
      <div class="itemline">
        <input
          type="checkbox"
          checked={on}
          aria-label={t("watch_enabled")}
          title={t("watch_enabled")}
          onChange={() => part({ enabled: !on })}
        />
        <button class="link clip" title={summaryOf(point, conditions)} onClick={() => watchEdit(point)}>
          <b class={on ? "" : "faint"}>{point.name || words}</b>
        </button>
        <span class="grow" />
        {hits !== undefined && (
          <button class="quiet" title={t("recheck_hits")} onClick={() => go({ list: "watch" })}>
            {hits > 0 ? <span class="hits">{hits}</span> : <span class="faint">0</span>}
          </button>
        )}
        {outdated && (
          <span class="chip" title={t("outdated_tip")}>
            {t("outdated")}
          </span>
        )}
        <MuteHere point={point} onMute={(mute) => part({ mute })} />
        <button
          class="quiet"
          title={t("remove")}
          aria-label={t("remove")}
          onClick={() => onChange({ action: "remove", id: point.id })}
        >
          ×
        </button>
      </div>
      <div class="itemline small">
        <span class="clip">{point.name ? words : summaryOf(point, conditions)}</span>
      </div>
      {(where || point.mute?.length) && (
        <div class="itemline small faint">
          <span class="clip" title={where}>
            {where}
          </span>
          <span class="grow" />
          {point.mute?.length ? <span>{t("muted_count", point.mute.length)}</span> : null}
        </div>
      )}
    </div>
  );
}

/** Leaves the selected operator alone, or no longer. */
function MuteHere({ point, onMute }: { point: WatchpointLine; onMute: (mute: string[]) => void }) {
  const t = useTexts();
  const { place } = useLooking();
  const node = useAnswer<NodeDetails>(
    place.node === null ? null : aboutStep(place, `nodes/${place.node}`, { pass: place.pass || null }),
    false,
  );
  const name = node.data?.id === place.node ? node.data.name : "";
  if (!name) return null;
  const muted = point.mute ?? [];
  const on = muted.includes(name);
  const short = name.slice(name.lastIndexOf("/") + 1);
  return (
    <button
      class={on ? "quiet on" : "quiet"}
      title={t(on ? "unmute_here" : "mute_here", short)}
      aria-label={t(on ? "unmute_here" : "mute_here", short)}
      aria-pressed={on}
      onClick={() => onMute(on ? muted.filter((each) => each !== name) : [...muted, name])}
    >
      {t("mute")}
    </button>
  );
}
