// The middle: four views of the same selection, and a value.
import { useLooking } from "../state/looking";
import { go, type ViewName } from "../state/place";
import { useTexts } from "../texts";
import { GraphView } from "./graph";
import { HeatMapView } from "./heat_map";
import { RanksView } from "./ranks";
import { SourceView } from "./source";
import { StepsView } from "./steps";
import { TensorView } from "../tensor/tensor_view";
import { WatchEditor } from "./watch_editor";

const NAMES: ViewName[] = ["source", "heat", "graph", "steps", "value", "edit"];

export function Views() {
  const t = useTexts();
  const { place, run } = useLooking();
  const names = run && run.ranks.length > 1 ? [...NAMES, "ranks" as const] : NAMES;
  return (
    <>
      <nav class="tabs" role="tablist">
        {names.map((name) => (
          <button
            key={name}
            role="tab"
            aria-selected={place.view === name}
            class={place.view === name ? "on" : ""}
            onClick={() => go({ view: name })}
          >
            {t(name)}
          </button>
        ))}
      </nav>
      {place.view === "source" && <SourceView />}
      {place.view === "heat" && <HeatMapView />}
      {place.view === "graph" && <GraphView />}
      {place.view === "steps" && <StepsView />}
      {place.view === "value" && <TensorView />}
      {place.view === "edit" && <WatchEditor />}
      {place.view === "ranks" && <RanksView />}
    </>
  );
}
