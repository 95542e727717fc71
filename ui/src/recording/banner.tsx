// On the page of a run that ended badly: how, in one line that leads to its recording.
import { useAnswer } from "../api/client";
import type { RecordingFacts } from "../api/types";
import { fileName, lastPart } from "../format";
import { recordingLink } from "./place";
import { causeName, useRecordingTexts } from "./texts";

/** The verdict tells of a hit, and a good end needs no telling. */
const TOLD_ELSEWHERE = ["hit", "end"];

export function EndedBanner({ run }: { run: string }) {
  const r = useRecordingTexts();
  const answer = useAnswer<RecordingFacts>(`/recordings/${encodeURIComponent(run)}`, false);
  const found = answer.data;
  const rank = found?.ranks.find((each) => each.rank === found.first) ?? found?.ranks[0];
  if (!found || !rank || TOLD_ELSEWHERE.includes(rank.cause)) return null;
  const { last_op: last, source } = rank;
  return (
    <p class="endedbanner" role="status">
      <b>{causeName(r, rank.cause)}</b>
      <span class="clip">
        {r("in_step", rank.step)}
        {last && ` · ${lastPart(last.name)}`}
        {last?.state === "flight" && ` (${r("in_flight")})`}
        {source && ` · ${fileName(source.file)}:${source.line}`}
      </span>
      <span class="grow" />
      <a class="chip" href={recordingLink(run)} title={r("how_tip")}>
        {r("open_recording")}
      </a>
    </p>
  );
}
