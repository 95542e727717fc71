// One scope as a graph: its operators and scopes, and what feeds them.
import { useMemo } from "preact/hooks";
import { useAnswer } from "../api/client";
import type { NodeDetails, ScopeGraph } from "../api/types";
import { count } from "../format";
import { CopyMenu } from "../parts/copy";
import { Empty, Waiting } from "../parts/empty";
import { nodesCode } from "../python";
import { aboutStep, useLooking } from "../state/looking";
import { go, showPath } from "../state/place";
import { useTexts } from "../texts";
import { COLOURS } from "./graph_colours";
import { Drawing } from "./graph_drawing";
import { PathPanel, usePath } from "./graph_path";
import { useLayout } from "./layout";

export function GraphView() {
  const t = useTexts();
  const { place, run, moving, verdict } = useLooking();
  const origin = verdict?.story?.node;
  const node = useAnswer<NodeDetails>(
    place.node === null
      ? null
      : aboutStep(place, `nodes/${place.node}`, { pass: place.pass || null }),
    false,
  );
  const own = node.data?.id === place.node ? node.data.scope : undefined;
  const awaited = place.scope === null && place.node !== null && own === undefined && !node.error;
  const scope = place.scope ?? own ?? "";
  const answer = useAnswer<ScopeGraph>(
    awaited ? null : aboutStep(place, "graph", { scope, backward: place.backward }),
    moving,
  );
  const drawn = useLayout(answer.data);
  const path = usePath(scope);
  const parts = useMemo(() => scope.split("/").filter(Boolean), [scope]);
  return (
    <div class="graph">
      <div class="viewbar">
        <nav class="crumbs" aria-label="scope">
          <button class="link" onClick={() => go({ scope: "" })}>
            {t("root")}
          </button>
          {parts.map((part, index) => (
            <span key={index}>
              <span class="faint slash">/</span>
              <button
                class="link"
                title={parts.slice(0, index + 1).join("/")}
                onClick={() => go({ scope: parts.slice(0, index + 1).join("/") })}
              >
                {part.length > 40 ? `${part.slice(0, 24)}…${part.slice(-12)}` : part}
              </button>
            </span>
          ))}
        </nav>
        <span class="grow" />
        {drawn && drawn.graph.hidden > 0 && (
          <span class="faint">{t("graph_hidden", count(drawn.graph.hidden))}</span>
        )}
        {place.node !== null && typeof origin === "number" && origin !== place.node && (
          <button class="chip" onClick={() => showPath(origin, place.node!)}>
            {t("path_from_origin")}
          </button>
        )}
        <CopyMenu json={() => answer.data} python={() => nodesCode(run?.path ?? "last", scope)} />
      </div>
      {drawn ? (
        drawn.graph.boxes.length ? (
          <Drawing drawn={drawn} tools={<Tools />} path={path} within={own}>
            {path && <PathPanel path={path} />}
          </Drawing>
        ) : (
          <Empty say="graph_empty" />
        )
      ) : answer.data ? (
        <p class="empty">{t("laying_out")}</p>
      ) : (
        <Waiting answer={answer} />
      )}
    </div>
  );
}

/** What is drawn, and by what it is coloured. */
function Tools() {
  const t = useTexts();
  const { place } = useLooking();
  return (
    <>
      <label class="field">
        <input
          type="checkbox"
          checked={place.backward}
          onChange={(e) => go({ backward: e.currentTarget.checked }, true)}
        />
        {t("with_backward")}
      </label>
      <label class="field">
        {t("colour_by")}
        <select value={place.colour} onChange={(e) => go({ colour: e.currentTarget.value }, true)}>
          {COLOURS.map(([name, say]) => (
            <option key={name} value={name}>
              {t(say)}
            </option>
          ))}
        </select>
      </label>
    </>
  );
}
