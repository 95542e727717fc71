// All runs and dumps, the latest first.
import { useEffect, useRef } from "preact/hooks";
import { revision, useAnswer } from "../api/client";
import type { RunLine } from "../api/types";
import { bytes, count, fileName, moment } from "../format";
import { Empty, Waiting } from "../parts/empty";
import { Name } from "../parts/name";
import { Figure } from "../parts/number";
import { Switches } from "../parts/switches";
import { recordingLink } from "../recording/place";
import { useRecordingTexts } from "../recording/texts";
import { linkTo, openRun } from "../state/place";
import { useStore } from "../state/store";
import { language } from "../state/theme";
import { named, useTexts } from "../texts";

const LOOK_MS = 1000;

export function RunsPage() {
  const t = useTexts();
  const runs = useAnswer<RunLine[]>("/runs");
  useEffect(() => {
    document.title = "opscope";
    const timer = setInterval(() => document.hidden || revision.set(revision.get() + 1), LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  useComing(runs.data);
  return (
    <div class="page runs">
      <header class="topbar">
        <span class="brand">
          <img src="/icon.svg" alt="" width="18" height="18" />
          opscope
        </span>
        <b>{t("runs")}</b>
        <span class="grow" />
        <Switches />
      </header>
      <main>
        {!runs.data ? (
          <Waiting answer={runs} />
        ) : runs.data.length === 0 ? (
          <Empty say="runs_empty" />
        ) : (
          <RunTable runs={runs.data} />
        )}
      </main>
    </div>
  );
}

/** A training that connects while somebody waits here is opened. */
function useComing(runs: RunLine[] | undefined): void {
  const before = useRef<Set<string> | null>(null);
  useEffect(() => {
    if (!runs) return;
    const live = runs.filter((run) => run.live).map((run) => run.id);
    const fresh = before.current && live.find((id) => !before.current!.has(id));
    before.current = new Set(live);
    if (fresh) openRun(fresh);
  }, [runs]);
}

function RunTable({ runs }: { runs: RunLine[] }) {
  const t = useTexts();
  const r = useRecordingTexts();
  const spoken = useStore(language);
  return (
    <table class="table runtable">
      <thead>
        <tr>
          <th>{t("name")}</th>
          <th>{t("state")}</th>
          <th>{t("started")}</th>
          <th class="end">{t("rank_count")}</th>
          <th class="end">{t("step_count")}</th>
          <th class="end">{t("last_loss")}</th>
          <th class="end">{t("size")}</th>
        </tr>
      </thead>
      <tbody>
        {runs.map((run) => (
          <tr key={run.id} onClick={() => openRun(run.id)}>
            <td>
              <a
                href={linkTo({ run: run.id })}
                onClick={(e) => (e.preventDefault(), e.stopPropagation(), openRun(run.id))}
              >
                <Name of={run.name} tail={10} />
              </a>
              {run.kind === "dump" && <span class="chip">{t("dump")}</span>}
              {run.live && <span class="chip on">{t("connected")}</span>}
              {run.recording && (
                <a class="chip" href={recordingLink(run.id)} onClick={(e) => e.stopPropagation()} title={r("how_tip")}>
                  {r("open_recording")}
                </a>
              )}
              <span class="faint"> {fileName(run.script)}</span>
            </td>
            <td>
              <State words={run.state} />
            </td>
            <td class="num">{moment(run.started, spoken)}</td>
            <td class="end num">{run.ranks}</td>
            <td class="end num">{count(run.steps)}</td>
            <td class="end">
              <Figure of={run.loss} />
            </td>
            <td class="end num">{bytes(run.size)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function State({ words }: { words: string }) {
  const kind = /^[a-z]+/.exec(words)?.[0] ?? "";
  const reason = words.slice(kind.length).replace(/^: /, "");
  return (
    <span class={`state state-${kind}`} title={words}>
      <span class="dot" />
      {named("state", kind)}
      <span class="faint">{reason}</span>
    </span>
  );
}
