// Ways to an element: the extremes, the first that is not finite, or any index.
import { useState } from "preact/hooks";
import { ask as request } from "../api/client";
import type { Compared, Layout, Places } from "../api/types";
import { parseAt, placeOf } from "./layout";
import { change, type Asking } from "./state";
import { useTensorTexts } from "./texts";
import { around } from "./window";

const WAYS = ["min", "max", "nan", "posinf", "neginf"] as const;
type Way = (typeof WAYS)[number];

interface Props {
  asking: Asking;
  layout: Layout;
  shape: number[];
  /** How many elements are NaN, +Inf and -Inf. */
  bad: Record<"nan" | "posinf" | "neginf", number>;
}

export function Jump({ asking, layout, shape, bad }: Props) {
  const t = useTensorTexts();
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState("");
  const { isDifference } = asking;
  const to = (index: number[], row: number, column: number): void => {
    setProblem("");
    const isZoomed = layout.rows > 96 || layout.columns > 192;
    const look = asking.state.look === "table" ? "table" : "heat";
    change({ at: index.join(","), look, ...(isZoomed ? { window: around(layout, row, column) } : {}) });
  };
  const find = async (way: Way): Promise<void> => {
    const found = (await request<Places>(asking.askShown("places")))[way];
    if (found) to(found.index, found.row, found.column);
  };
  const farthest = async (): Promise<void> => {
    const found = await request<Compared>(asking.askShown("compared"));
    if (found.index) to(found.index, found.row!, found.column!);
  };
  const enter = (): void => {
    const index = parseAt(typed, shape);
    const place = index && placeOf(layout, index);
    if (index && place) to(index, place.row, place.column);
    else if (typed.trim()) setProblem(t("jump_outside", typed));
  };
  const ways = WAYS.filter((way) => way === "min" || way === "max" || bad[way] > 0);
  const told = (error: unknown): void => setProblem(error instanceof Error ? error.message : String(error));
  return (
    <span class="field jump">
      {t("jump")}
      {ways.map((way) => (
        <button key={way} class="chip" data-jump={way} onClick={() => void find(way).catch(told)}>
          {t(`jump_${way}`)}
        </button>
      ))}
      {isDifference && (
        <button class="chip" data-jump="apart" onClick={() => void farthest().catch(told)}>
          {t("jump_apart")}
        </button>
      )}
      <input
        class="num"
        data-jump="index"
        placeholder={shape.map(() => "0").join(",") || "–"}
        aria-label={t("jump_index")}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Enter" && enter()}
      />
      {problem && <span class="problem">{problem}</span>}
    </span>
  );
}
