// A recording: how a training ended, its last operators, and all that was noted beside them.
import { useEffect } from "preact/hooks";
import { revision, useAnswer } from "../api/client";
import type { EndedRank, RecordingFacts } from "../api/types";
import { Waiting } from "../parts/empty";
import { Name } from "../parts/name";
import { Switches } from "../parts/switches";
import { useTexts } from "../texts";
import { BatchPanel } from "./batch";
import { Ending } from "./ending";
import { ExceptionPanel } from "./exception";
import { LastOperators } from "./last_operators";
import { OperatorPanel } from "./operator";
import { goTo, useRecordingPlace } from "./place";
import { ProgramPanel, TextPanel } from "./plain_panels";
import { StepsPanel } from "./steps";
import { useRecordingTexts } from "./texts";
import { TimelinePanel } from "./timeline";

/** How often a process that is still there is looked at. */
const LOOK_MS = 2000;

export function RecordingPage() {
  const place = useRecordingPlace();
  const answer = useAnswer<RecordingFacts>(`/recordings/${encodeURIComponent(place.id)}`);
  const found = answer.data;
  useEffect(() => {
    if (!found?.alive) return;
    const timer = setInterval(() => document.hidden || revision.set(revision.get() + 1), LOOK_MS);
    return () => clearInterval(timer);
  }, [found?.alive]);
  useEffect(() => {
    document.title = found ? `${found.name} · opscope` : "opscope";
  }, [found?.name]);
  return (
    <div class="page recording">
      <TopBar recording={found} />
      {found ? <Body recording={found} /> : <Waiting answer={answer} />}
    </div>
  );
}

function TopBar({ recording }: { recording: RecordingFacts | undefined }) {
  const t = useTexts();
  const r = useRecordingTexts();
  const place = useRecordingPlace();
  return (
    <header class="topbar">
      <a class="brand" href="/" title={t("all_runs")}>
        <img src="/icon.svg" alt="" width="18" height="18" />
        opscope
      </a>
      <span class="runname" title={recording?.path ?? place.id}>
        <Name of={recording?.name ?? place.id} tail={8} />
      </span>
      <span class="chip">{r("recording")}</span>
      {recording?.run && (
        <a class="chip" href={`/run/${encodeURIComponent(recording.run)}`}>
          {r("open_run")}
        </a>
      )}
      <span class="grow" />
      <Switches />
    </header>
  );
}

function Body({ recording }: { recording: RecordingFacts }) {
  const r = useRecordingTexts();
  const place = useRecordingPlace();
  const rank = shownRank(recording, place.at);
  if (!rank) return null;
  return (
    <main class="scroll endingpage">
      <Ending recording={recording} rank={rank} />
      <TimelinePanel recording={recording} rank={rank} />
      {recording.ranks.length > 1 && <RankTabs recording={recording} rank={rank} />}
      <div class="endinggrid">
        <div>
          <OperatorPanel recording={recording} rank={rank} />
          {rank.exception && <ExceptionPanel raised={rank.exception} />}
          <LastOperators rank={rank} />
          <TextPanel title={r("stacks")} text={rank.stacks} empty={r("stacks_empty")} name="stacks" />
        </div>
        <div>
          <StepsPanel steps={rank.steps} />
          <BatchPanel rank={rank} />
          <ProgramPanel rank={rank} />
        </div>
      </div>
    </main>
  );
}

/** The rank that was chosen, else the one whose end explains the others. */
function shownRank(recording: RecordingFacts, at: number | null): EndedRank | undefined {
  const first = recording.ranks.find((rank) => rank.rank === recording.first);
  return (at === null ? first : recording.ranks[at]) ?? recording.ranks[0];
}

function RankTabs({ recording, rank }: { recording: RecordingFacts; rank: EndedRank }) {
  const t = useTexts();
  return (
    <nav class="ranktabs" aria-label={t("rank")}>
      {recording.ranks.map((each) => (
        <button
          key={each.place}
          class={each.place === rank.place ? "on" : ""}
          aria-pressed={each.place === rank.place}
          title={each.cause_text}
          onClick={() => goTo({ at: each.place, op: "" })}
        >
          {t("rank")} {each.rank}
        </button>
      ))}
    </nav>
  );
}
