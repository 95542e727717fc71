// One run: top bar, verdict, strip, and below them lists, views and details side by side.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { revision, runPath, useAnswer, type Answer } from "./api/client";
import { connected, news, useEvents } from "./api/events";
import type { RunDetails, Strip, Verdict } from "./api/types";
import { Control, Holding, sendToggle } from "./panels/control";
import { Details } from "./panels/details";
import { Help } from "./panels/help";
import { Lists } from "./panels/lists";
import { RecommendedQuestion } from "./panels/question";
import { StepStrip } from "./panels/strip";
import { TopBar } from "./panels/topbar";
import { VerdictBar } from "./panels/verdict";
import { Columns } from "./parts/columns";
import { Empty } from "./parts/empty";
import { EndedBanner } from "./recording/banner";
import { useKeys } from "./state/keys";
import { aboutRank, LookingContext, type Looking } from "./state/looking";
import { go, usePlace, type Place } from "./state/place";
import { recordedAt } from "./state/steps";
import { useStore } from "./state/store";
import { useTexts } from "./texts";
import { Views } from "./views/views";

const LOOK_MS = 1000;
const REST_MS = 500;

export function RunPage() {
  const place = usePlace();
  const t = useTexts();
  const run = useAnswer<RunDetails>(runPath(place.run));
  const strip = useStrip(place);
  const verdict = useAnswer<Verdict>(aboutRank(place, "verdict"));
  const [help, setHelp] = useState(false);
  useEvents(place.run, run.data !== undefined);
  useStore(news);
  const reachable = useStore(connected);
  useBeginning(place, run.data, verdict.stale ? undefined : verdict.data);
  useEffect(() => {
    document.title = run.data ? `${run.data.name} · opscope` : "opscope";
  }, [run.data?.name]);
  const live = run.data?.live ?? false;
  const control = useMemo(
    () => (live ? (verb: string) => void sendToggle(place.run, verb) : undefined),
    [live, place.run],
  );
  useKeys(
    strip.data,
    useCallback(() => setHelp(true), []),
    control,
  );
  const looking: Looking = {
    place,
    run: run.data,
    strip: strip.data,
    verdict: verdict.data,
    moving: place.step === null,
    step: recordedAt(strip.data, place.step),
  };
  if (run.error?.status === 404) return <NoRun />;
  return (
    <LookingContext.Provider value={looking}>
      <div class="page">
        <TopBar onHelp={() => setHelp(true)}>{live && <Control />}</TopBar>
        {!reachable && (
          <p class="offline" role="status">
            {t("offline")}
          </p>
        )}
        <Holding />
        {run.data?.recording && !live && <EndedBanner run={place.run} />}
        <VerdictBar answer={verdict} />
        <StepStrip answer={strip} />
        <Columns left={<Lists />} middle={<Views />} right={<Details />} />
        <RecommendedQuestion />
        {help && <Help onClose={() => setHelp(false)} />}
      </div>
    </LookingContext.Provider>
  );
}

/** The strip; of very large runs it comes in parts. */
function useStrip(place: Place): Answer<Strip> {
  const [part, setPart] = useState(0);
  const strip = useAnswer<Strip>(aboutRank(place, "strip", { points: 2000, part: part || null }));
  useEffect(() => {
    if (!strip.data?.pending) return;
    const timer = setTimeout(() => setPart(part + 1), REST_MS);
    return () => clearTimeout(timer);
  }, [strip.data]);
  return strip;
}

/** When a run with a verdict is opened, show where it began, on the rank that has it. One that comes while
 * nothing is chosen shows its operator, in the step that is followed. */
function useBeginning(place: Place, run: RunDetails | undefined, verdict: Verdict | undefined): void {
  const done = useRef(false);
  const waited = useRef(false);
  useEffect(() => {
    done.current ||= place.step !== null || place.node !== null;
    if (done.current || !verdict || !run) return;
    const other = run.ranks.find((rank) => rank.hits > 0);
    if (verdict.hits === 0 && place.rank === 0 && other && other.rank !== 0) {
      go({ rank: other.rank }, true);
      return;
    }
    const [node, step] = [verdict.story?.node, verdict.story?.step];
    if (typeof node === "number" && typeof step === "number")
      go(waited.current ? { node } : { node, step }, true);
    waited.current = true;
  }, [run, verdict, place.step, place.node]);
}

/** A training that has just been started writes its run in a moment. */
function NoRun() {
  const t = useTexts();
  useEffect(() => {
    const timer = setInterval(() => document.hidden || revision.set(revision.get() + 1), LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <main class="page alone">
      <Empty say="not_found" />
      <p>
        <a href="/">{t("all_runs")}</a>
      </p>
    </main>
  );
}
