// The middle: four views of the same selection, and a value.
import { useLooking } from "../state/looking";
import { go, type ViewName } from "../state/place";
import { useTexts } from "../texts";
import { GraphView } from "./graph";
import { HeatMapView } from "./heat_map";
import { SourceView } from "./source";
import { StepsView } from "./steps";
import { TensorView } from "../tensor/tensor_view";

const NAMES: ViewName[] = ["source", "heat", "graph", "steps", "value"];

export function Views() {
  const t = useTexts();
  const { place } = useLooking();
  return (
    <>
      <nav class="tabs" role="tablist">
        {NAMES.map((name) => (
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
    </>
  );
}
