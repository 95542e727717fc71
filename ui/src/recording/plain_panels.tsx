// Panels of plain text: stacks, an exception, and what program it was.
import type { EndedRank } from "../api/types";
import { useRecordingTexts } from "./texts";

interface TextProps {
  title: string;
  text: string;
  empty?: string;
  name: string;
}

export function TextPanel({ title, text, empty, name }: TextProps) {
  return (
    <section class="panel textpanel" data-panel={name}>
      <h3>{title}</h3>
      {text ? <pre class="scroll">{text}</pre> : <p class="faint">{empty}</p>}
    </section>
  );
}

export function ProgramPanel({ rank }: { rank: EndedRank }) {
  const r = useRecordingTexts();
  const versions = Object.entries(rank.versions).map(([name, version]) => `${name} ${version}`);
  return (
    <section class="panel" data-panel="program">
      <h3>{r("program")}</h3>
      <dl class="opfacts">
        <dt>{r("command")}</dt>
        <dd>
          <code>{rank.command.join(" ")}</code>
        </dd>
        <dt>{r("host")}</dt>
        <dd>
          {rank.host} · {versions.join(" · ")}
        </dd>
        {rank.git && (
          <>
            <dt>{r("revision")}</dt>
            <dd>
              <code>{rank.git}</code>
            </dd>
          </>
        )}
      </dl>
    </section>
  );
}
