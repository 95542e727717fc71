// The stack of a node, with the source around each line; each line finds its nodes.
import { useState } from "preact/hooks";
import type { NodeDetails, StackLine } from "../api/types";
import { fileName } from "../format";
import { go, listNodes } from "../state/place";
import { useTexts } from "../texts";

export function Stack({ node }: { node: NodeDetails }) {
  const t = useTexts();
  const own = node.stack.filter((frame) => frame.user);
  return (
    <section class="stack">
      <h3>{t("stack")}</h3>
      {own.length === 0 && <p class="faint">{t("outside_files")}</p>}
      {own.map((frame, index) => (
        <Frame key={`${frame.file}:${frame.line}:${index}`} frame={frame} first={index === 0} />
      ))}
    </section>
  );
}

function Frame({ frame, first }: { frame: StackLine; first: boolean }) {
  const t = useTexts();
  const [open, setOpen] = useState(first);
  const place = `${fileName(frame.file)}:${frame.line}`;
  return (
    <div class="frame">
      <div class="framehead">
        <button class="twist quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "▾" : "▸"}
        </button>
        <button
          class="link where"
          title={`${frame.file}:${frame.line}`}
          onClick={() => go({ view: "source", file: frame.file, line: frame.line })}
        >
          {place}
        </button>
        <span class="faint clip">{frame.function}</span>
        <span class="grow" />
        <button
          class="quiet"
          title={t("search_line")}
          aria-label={t("search_line")}
          onClick={() => listNodes(place)}
        >
          ⌕
        </button>
        <a
          class="quiet"
          href={`vscode://file${frame.file}:${frame.line}`}
          title={t("open_editor")}
          aria-label={t("open_editor")}
        >
          ↗
        </a>
      </div>
      {open && frame.around.length > 0 && (
        <pre>
          {frame.around.map((line, index) => (
            <div key={index} class={frame.first + index === frame.line ? "on" : ""}>
              <span class="lineno">{frame.first + index}</span>
              {line || " "}
            </div>
          ))}
        </pre>
      )}
    </div>
  );
}
