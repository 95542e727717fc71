// How data comes from one operator to another: the list of them, to go along, over the graph.
import { useEffect, useRef } from "preact/hooks";
import { useAnswer } from "../api/client";
import type { NodeLine, NodePath } from "../api/types";
import { count, lastPart } from "../format";
import { CopyMenu } from "../parts/copy";
import { Name } from "../parts/name";
import { pathCode } from "../python";
import { isTyping } from "../state/keys";
import { aboutStep, useLooking } from "../state/looking";
import { go, pathEnds, select } from "../state/place";
import { useTexts } from "../texts";

/** The path that the address names, as it is seen from an open scope. */
export function usePath(scope: string): NodePath | undefined {
  const { place } = useLooking();
  const ends = pathEnds(place);
  const answer = useAnswer<NodePath>(
    ends && aboutStep(place, "path", { start: ends[0], end: ends[1], scope, backward: place.backward }),
    false,
  );
  return ends ? answer.data : undefined;
}

export function PathPanel({ path }: { path: NodePath }) {
  const t = useTexts();
  const { place, run } = useLooking();
  const list = useRef<HTMLOListElement>(null);
  const { nodes } = path;
  const at = nodes.findIndex((node) => node.id === place.node);
  const move = (by: number): void => {
    const next = nodes[at < 0 ? 0 : at + by];
    if (next) select(next.id);
  };
  useKeysAlong(move);
  useEffect(() => {
    list.current?.querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  }, [place.node]);
  return (
    <section class="pathpanel" aria-label={t("path")}>
      <header>
        <b>{t("path")}</b>
        <span class="faint">{t("path_length", count(path.total))}</span>
        <span class="grow" />
        <button class="quiet" title={t("path_back")} disabled={at <= 0} onClick={() => move(-1)}>
          ◀
        </button>
        <button class="quiet" title={t("path_on")} disabled={at === nodes.length - 1} onClick={() => move(1)}>
          ▶
        </button>
        <CopyMenu
          json={() => path}
          python={() =>
            pathCode(
              run?.path ?? "last",
              nodes.map((node) => node.name),
            )
          }
        />
        <button class="quiet" title={t("close")} aria-label={t("close")} onClick={() => go({ path: "" })}>
          ×
        </button>
      </header>
      {nodes.length ? (
        <ol ref={list}>
          {nodes.map((node, index) => (
            <Stop
              key={node.id}
              node={node}
              isNewScope={node.scope !== nodes[index - 1]?.scope}
              chosen={node.id === place.node}
            />
          ))}
        </ol>
      ) : (
        <p class="faint">{path.why || t("path_none")}</p>
      )}
      {path.total > nodes.length && <p class="faint">{t("path_more", count(path.total - nodes.length))}</p>}
    </section>
  );
}

function Stop({ node, isNewScope, chosen }: { node: NodeLine; isNewScope: boolean; chosen: boolean }) {
  const wrong = Number(node.nan) > 0 || Number(node.inf) > 0;
  return (
    <li>
      {isNewScope && (
        <span class="faint scopename">
          <Name of={node.scope} tail={20} />
        </span>
      )}
      <button
        class={`link stop ${chosen ? "chosen" : ""} ${wrong ? "wrong" : ""}`}
        title={node.name}
        aria-current={chosen || undefined}
        onClick={() => select(node.id)}
      >
        {lastPart(node.name)}
      </button>
    </li>
  );
}

function useKeysAlong(move: (by: number) => void): void {
  const latest = useRef(move);
  latest.current = move; // keys may come faster than effects
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.key === "n") latest.current(1);
      else if (event.key === "p") latest.current(-1);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}
