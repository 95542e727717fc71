// The left side: what to choose from.
import { brief } from "../format";
import { useLooking } from "../state/looking";
import { go, type ListName } from "../state/place";
import { useTexts } from "../texts";
import { HitList } from "./hits";
import { LineList } from "./lines";
import { NodeListPanel } from "./nodes";
import { ModelTree } from "./tree";
import { WatchList } from "./watchpoints";

export function Lists() {
  const t = useTexts();
  const { place, verdict } = useLooking();
  const names: ListName[] = ["model", "nodes", "lines", "hits", "watch"];
  const shown = names.includes(place.list) ? place.list : "model";
  return (
    <>
      <nav class="tabs" role="tablist">
        {names.map((name) => (
          <button
            key={name}
            role="tab"
            aria-selected={shown === name}
            class={shown === name ? "on" : ""}
            onClick={() => go({ list: name })}
          >
            {t(name)}
            {name === "hits" && verdict && verdict.hits > 0 && (
              <span class="hits">{brief(verdict.hits)}</span>
            )}
          </button>
        ))}
      </nav>
      {shown === "model" && <ModelTree />}
      {shown === "nodes" && <NodeListPanel />}
      {shown === "lines" && <LineList />}
      {shown === "hits" && <HitList />}
      {shown === "watch" && <WatchList />}
    </>
  );
}
