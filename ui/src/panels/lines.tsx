// All lines of the person's files that have operators: a file opens to its lines.
import { useState } from "preact/hooks";
import { useAnswer } from "../api/client";
import type { SourceFile, SourceFiles, SourceText } from "../api/types";
import { CopyMenu } from "../parts/copy";
import { Empty, Waiting } from "../parts/empty";
import { BadCount } from "../parts/number";
import { nodesCode } from "../python";
import { aboutStep, useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { useTexts } from "../texts";
import { Typed } from "./nodes";

/** Lines of one file that are shown at once; a filter finds the others. */
const MOST = 400;

export function LineList() {
  const t = useTexts();
  const { place, run, moving } = useLooking();
  const [text, setText] = useState("");
  const files = useAnswer<SourceFiles>(aboutStep(place, "files"), moving);
  if (!files.data) return <Waiting answer={files} />;
  if (!files.data.files.length)
    return run?.lacks.code ? <p class="empty">{run.lacks.code}</p> : <Empty say="lines_empty" />;
  return (
    <>
      <div class="filters pair">
        <Typed id="lines" say={t("filter")} value={text} onChange={setText} />
        <CopyMenu json={() => files.data} python={() => nodesCode(run?.path ?? "last", text)} />
      </div>
      <div class="scroll" role="list">
        {files.data.files.map((file) => (
          <FileLines
            key={file.file}
            file={file}
            text={text.toLowerCase()}
            first={files.data!.files.length <= 6}
          />
        ))}
      </div>
    </>
  );
}

function FileLines({ file, text, first }: { file: SourceFile; text: string; first: boolean }) {
  const t = useTexts();
  const { place, moving } = useLooking();
  const [open, setOpen] = useState(first);
  const shown = open || text !== "";
  const source = useAnswer<SourceText>(
    shown ? aboutStep(place, "source", { file: file.file }) : null,
    moving,
  );
  const marks = (source.data?.marks ?? []).filter(
    (mark) =>
      !text ||
      `${file.name}:${mark.line}`.toLowerCase().includes(text) ||
      mark.ops.some((op) => op.toLowerCase().includes(text)) ||
      (source.data?.text[mark.line - 1] ?? "").toLowerCase().includes(text),
  );
  return (
    <div class="filelines">
      <button class="filehead" aria-expanded={shown} title={file.file} onClick={() => setOpen(!open)}>
        <span class="twist">{shown ? "▾" : "▸"}</span>
        <b>{file.name}</b>
        <span class="grow" />
        {file.hits > 0 && <span class="hit" />}
        <BadCount nan={file.nan} inf={file.inf} />
        <span class="faint num small">{file.nodes}</span>
      </button>
      {shown &&
        marks.slice(0, MOST).map((mark) => (
          <div
            key={mark.line}
            class={place.file === file.file && place.line === mark.line ? "lineitem chosen" : "lineitem"}
            role="listitem"
            data-row
            title={source.data?.text[mark.line - 1]?.trim()}
            onClick={() => select(mark.first_node, { file: file.file, line: mark.line, view: "source" })}
            onDblClick={() => go({ list: "nodes", text: `${file.name}:${mark.line}` })}
          >
            <span class="num lineno">{mark.line}</span>
            <code>{source.data?.text[mark.line - 1]?.trim() ?? mark.ops.join(", ")}</code>
            <span class="grow" />
            {mark.hits > 0 && <span class="hit" />}
            <BadCount nan={mark.nan} inf={mark.inf} />
            <span class="faint num small">{mark.nodes}</span>
          </div>
        ))}
      {shown && marks.length > MOST && <p class="faint more">{t("more", marks.length - MOST)}</p>}
    </div>
  );
}
