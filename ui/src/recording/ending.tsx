// How it ended, on top: the cause, the operator, the line.
import type { EndedRank, MissedCollective, RecordedOperator, RecordedSource, RecordingFacts } from "../api/types";
import { fileName, seconds } from "../format";
import { CopyMenu } from "../parts/copy";
import { Name } from "../parts/name";
import { PhaseMark } from "../parts/phase";
import { goTo } from "./place";
import { causeName, useRecordingTexts, type RecordingTexts } from "./texts";

export function Ending({ recording, rank }: { recording: RecordingFacts; rank: EndedRank }) {
  const r = useRecordingTexts();
  const many = recording.world_size > 1;
  const cause = causeName(r, rank.cause);
  return (
    <section class="ending" aria-label={r("how_it_ended")}>
      <header>
        <h2>{cause}</h2>
        <p class="causetext">{beyond(cause, rank.cause_text)}</p>
        <span class="grow" />
        <CopyMenu json={() => recording} python={() => reportCode(recording.path)} />
      </header>
      <p class="where">
        {many && <b>{r("of_ranks", rank.rank, recording.world_size)}</b>}
        <span>{r("in_step", rank.step)}</span>
        <span class="faint">
          {r("process", rank.pid)}
          {rank.host && ` · ${rank.host}`}
        </span>
        {(rank.silent_seconds ?? 0) > 1 && <span>{r("silent", seconds(rank.silent_seconds))}</span>}
      </p>
      {rank.last_op ? <LastOperator found={rank.last_op} at={rank.place} /> : <p>{r("no_operator")}</p>}
      {rank.source && <SourceLine of={rank.source} />}
      {recording.missing.map((missed) => (
        <p key={`${missed.group}:${missed.number}`} class="missed">
          {missedWords(r, missed)}
        </p>
      ))}
      {recording.absent.length > 0 && <p class="faint">{r("absent_ranks", recording.absent.join(", "))}</p>}
    </section>
  );
}

/** What a text says beyond a title that it begins with. */
function beyond(title: string, text: string): string {
  return text.toLowerCase().startsWith(title.toLowerCase()) ? text.slice(title.length).trim() : text;
}

function LastOperator({ found, at }: { found: RecordedOperator; at: number }) {
  const r = useRecordingTexts();
  const became = { flight: r("in_flight"), raised: r("raised") }[found.state] ?? r("finished");
  return (
    <p class="lastop">
      <PhaseMark of={found.phase} />
      <button class="link" onClick={() => goTo({ op: `${at}:${found.sequence}`, from: null, to: null })}>
        <Name of={found.name} tail={32} />
      </button>
      <span class={`became ${found.state}`}>{became}</span>
      {found.inside && <span class="faint">{r("inside", found.inside)}</span>}
    </p>
  );
}

export function SourceLine({ of }: { of: RecordedSource }) {
  const r = useRecordingTexts();
  return (
    <p class="endsource">
      <a
        class="where"
        href={`vscode://file${of.file}:${of.line}`}
        title={[`${of.file}:${of.line}`, ...of.called_from.map((each) => `${r("called_from")} ${each}`)].join("\n")}
      >
        {fileName(of.file)}:{of.line}
      </a>
      <span class="faint">{of.function}</span>
      {of.code && <code>{of.code}</code>}
    </p>
  );
}

export function missedWords(r: RecordingTexts, missed: MissedCollective): string {
  const group = missed.group || r("default_group");
  const [waiting, missing] = [missed.waiting.join(", "), missed.missing.join(", ")];
  return r("waits_for", missed.name, missed.number, group, waiting, missing);
}

const reportCode = (path: string): string =>
  `import json, subprocess\n\nfound = subprocess.run(["opscope", "report", ${JSON.stringify(path)}, "--json"], capture_output=True)\n` +
  `report = json.loads(found.stdout)\nprint(report["cause"], report["last_op"], report["source"])\n`;
