// What the colours of the graph mean.
import type { Box } from "../api/types";
import { useLooking } from "../state/looking";
import { useStore } from "../state/store";
import { shownTheme } from "../state/theme";
import { useTexts, type TextName } from "../texts";
import { ramp } from "./colours";
import { isStatistic } from "./graph_colours";

const MEANINGS: Record<string, [string, TextName][]> = {
  phase: [
    ["forward", "phase_forward"],
    ["backward", "phase_backward"],
    ["optimizer", "phase_optimizer"],
  ],
  class: [
    ["activation", "kind_activation"],
    ["gradient", "kind_gradient"],
    ["weight", "kind_weight"],
  ],
  bad: [["wrong", "not_finite"]],
  hits: [["wrong", "by_hits"]],
  reached: [
    ["origin", "is_origin"],
    ["wrong", "is_reached"],
    ["", "not_reached"],
  ],
};

export function GraphLegend({ boxes }: { boxes: Box[] }) {
  const t = useTexts();
  const { place, verdict } = useLooking();
  const dark = useStore(shownTheme) === "dark";
  if (place.colour === "reached" && verdict && !verdict.story)
    return <p class="graphlegend">{t("no_origin")}</p>;
  if (isStatistic(place.colour)) {
    const stops = [0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => ramp(share, dark));
    return (
      <p class="graphlegend">
        {t("legend_small")}
        <i class="ramp" style={{ background: `linear-gradient(90deg, ${stops.join(", ")})` }} />
        {t("legend_large")}
        {boxes.some((box) => box.bad) && (
          <span>
            <i class="wrong" />
            {t("not_finite")}
          </span>
        )}
      </p>
    );
  }
  return (
    <p class="graphlegend">
      {(MEANINGS[place.colour] ?? []).map(([style, say]) => (
        <span key={say}>
          <i class={style} />
          {t(say)}
        </span>
      ))}
    </p>
  );
}
