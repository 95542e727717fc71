// Which graph a list is about: training, evaluation, or any.
import { useLooking } from "../state/looking";
import { go } from "../state/place";
import { useTexts } from "../texts";

export function GraphChoice() {
  const t = useTexts();
  const { place } = useLooking();
  return (
    <select
      aria-label={t("any_graph")}
      value={place.graph}
      onChange={(e) => go({ graph: e.currentTarget.value }, true)}
    >
      <option value="">{t("any_graph")}</option>
      <option value="0">{t("graph_0")}</option>
      <option value="1">{t("graph_1")}</option>
    </select>
  );
}
