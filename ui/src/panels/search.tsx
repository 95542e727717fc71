// Search: nodes by name, parameter, operator or line; selecting one shows it everywhere.
import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "../api/client";
import type { NodeLine, NodeList } from "../api/types";
import { count, shownPlace } from "../format";
import { Name } from "../parts/name";
import { PhaseMark } from "../parts/phase";
import { aboutStep, useLooking } from "../state/looking";
import { listNodes, select } from "../state/place";
import { useTexts } from "../texts";

const SHOWN = 12;
const REST_MS = 120;

export function Search() {
  const t = useTexts();
  const { place } = useLooking();
  const [text, setText] = useState("");
  const [asked, setAsked] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text.trim()), REST_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const path = open && asked ? aboutStep(place, "nodes", { text: asked, count: SHOWN }) : null;
  const answer = useAnswer<NodeList>(path, false);
  const found = path && !answer.stale && asked === text.trim() ? answer.data : undefined;
  const close = (): void => {
    setOpen(false);
    document.querySelector<HTMLInputElement>("#search")?.blur();
  };
  const choose = (node: NodeLine): void => (select(node.id), close());
  const showAll = (): void => (listNodes(asked), close());
  const onKey = (event: KeyboardEvent): void => {
    const rows = found?.nodes.length ?? 0;
    if (event.key === "ArrowDown") setAt(Math.min(rows, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Escape") close();
    else if (event.key === "Enter" && found) {
      const node = found.nodes[at];
      if (node) choose(node);
      else if (rows) showAll();
    } else return;
    event.preventDefault();
  };
  return (
    <div
      class="search"
      onFocusOut={(e) => !e.currentTarget.contains(e.relatedTarget as Node) && setOpen(false)}
    >
      <input
        id="search"
        type="search"
        placeholder={t("search")}
        aria-label={t("search")}
        value={text}
        autocomplete="off"
        spellcheck={false}
        maxLength={1000}
        onFocus={() => setOpen(true)}
        onKeyDown={onKey}
        onInput={(e) => (setText(e.currentTarget.value), setAt(0), setOpen(true))}
      />
      <kbd>/</kbd>
      {found && (
        <div class="found" role="listbox">
          {found.nodes.map((node, index) => (
            <button
              key={node.id}
              role="option"
              aria-selected={index === at}
              class={index === at ? "row on" : "row"}
              onMouseDown={(e) => e.preventDefault()}
              onClick={() => choose(node)}
            >
              <PhaseMark of={node.phase} />
              <Name of={node.name} tail={26} />
              <span class="where">{node.parameter || node.gradient_of || shownPlace(node.where)}</span>
              {node.hits > 0 && <span class="hit" />}
            </button>
          ))}
          {found.total === 0 && <p class="empty">{t("search_none")}</p>}
          {found.total > 0 && (
            <button
              class={at >= found.nodes.length ? "row all on" : "row all"}
              onMouseDown={(e) => e.preventDefault()}
              onClick={showAll}
            >
              {t("search_all", count(found.total))}
            </button>
          )}
        </div>
      )}
    </div>
  );
}
