// The watchpoints of a live training: the list, each with its conditions.
import { revision, request, runPath, useAnswer } from "../api/client";
import type { WatchpointLine } from "../api/control";
import { short } from "../format";
import { Empty, Waiting } from "../parts/empty";
import { useLooking } from "../state/looking";
import { useTexts } from "../texts";

export function WatchList() {
  const t = useTexts();
  const { place } = useLooking();
  const path = `${runPath(place.run)}/watchpoints`;
  const answer = useAnswer<{ watchpoints: WatchpointLine[] }>(path);
  if (!answer.data) return <Waiting answer={answer} />;
  if (!answer.data.watchpoints.length) return <Empty say="watch_empty" />;
  const remove = (id: number): void => {
    void request("DELETE", `${path}/${id}`).then(() => revision.set(revision.get() + 1));
  };
  return (
    <div class="scroll" role="list" aria-label={t("watch_place")}>
      {answer.data.watchpoints.map((point) => (
        <div class="item" key={point.id} role="listitem">
          <div class="itemline">
            <span class="condition">{point.label || point.condition}</span>
            <span class="grow" />
            <button class="quiet" aria-label={t("close")} onClick={() => remove(point.id)}>
              ×
            </button>
          </div>
          <div class="itemline small">
            {Object.entries(point.params)
              .map(([name, found]) => `${name} ${short(found)}`)
              .join(", ")}
          </div>
        </div>
      ))}
    </div>
  );
}
