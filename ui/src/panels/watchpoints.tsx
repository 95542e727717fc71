// The watchpoints of a live training: each can be removed.
import { useState } from "preact/hooks";
import { runPath, useAnswer } from "../api/client";
import { changeWatch, type WatchpointLine } from "../api/watch";
import { short } from "../format";
import { Empty, Waiting } from "../parts/empty";
import { useLooking } from "../state/looking";
import { useTexts } from "../texts";

export function WatchList() {
  const t = useTexts();
  const { place } = useLooking();
  const path = `${runPath(place.run)}/watchpoints`;
  const answer = useAnswer<WatchpointLine[]>(path);
  const [problem, setProblem] = useState("");
  if (!answer.data) return <Waiting answer={answer} />;
  if (!answer.data.length) return <Empty say="watch_empty" />;
  const remove = (id: number): void => {
    changeWatch(place.run, { action: "remove", id }).then(
      () => setProblem(""),
      (error: Error) => setProblem(error.message),
    );
  };
  return (
    <div class="scroll" role="list" aria-label={t("watch_place")}>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {answer.data.map((point) => (
        <Watchpoint key={point.id} point={point} onRemove={() => remove(point.id)} />
      ))}
    </div>
  );
}

function Watchpoint({ point, onRemove }: { point: WatchpointLine; onRemove: () => void }) {
  const t = useTexts();
  const asked = Object.entries(point.params ?? {}).map(([name, found]) => `${name} ${short(found)}`);
  const where = Object.entries(point.select ?? {}).map(([name, found]) => `${name} ${String(found)}`);
  return (
    <div class="item watchitem" role="listitem">
      <div class="itemline">
        <span class={point.enabled === false ? "faint" : ""}>
          <b>{point.condition}</b> {point.name}
        </span>
        <span class="grow" />
        <button class="quiet" title={t("remove")} aria-label={t("remove")} onClick={onRemove}>
          ×
        </button>
      </div>
      <div class="itemline small">{[...asked, ...where].join(", ")}</div>
    </div>
  );
}
