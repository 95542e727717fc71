// Asked of whoever looks at a training that waits and has no watchpoints: which ones?
import { useEffect, useRef, useState } from "preact/hooks";
import { runPath, useAnswer } from "../api/client";
import { tell } from "../api/control";
import { changeWatch, type WatchpointLine } from "../api/watch";
import type { LiveState } from "../api/types";
import { useLooking } from "../state/looking";
import { go } from "../state/place";
import { useTexts } from "../texts";

/** The runs whose question was answered or put aside on this page. */
const answered = new Set<string>();

export function RecommendedQuestion() {
  const { place, run } = useLooking();
  const live = useAnswer<LiveState>(run?.live ? `${runPath(place.run)}/live` : null);
  const waits = live.data?.ranks.some((rank) => rank.state === "waiting") ?? false;
  const watch = useAnswer<WatchpointLine[]>(waits ? `${runPath(place.run)}/watchpoints` : null);
  const [, redraw] = useState(0);
  if (!waits || !watch.data || watch.data.length > 0 || answered.has(place.run)) return null;
  const done = (): void => {
    answered.add(place.run);
    redraw((count) => count + 1);
  };
  return <Dialog run={place.run} onDone={done} />;
}

function Dialog({ run, onDone }: { run: string; onDone: () => void }) {
  const t = useTexts();
  const box = useRef<HTMLDialogElement>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => box.current?.showModal(), []);
  const take = (goOn: boolean): void => {
    changeWatch(run, { action: "set", watch: "recommended" }).then(
      () => {
        onDone();
        if (goOn) void tell(run, "continue");
        else go({ list: "watch" }, true);
      },
      (error: Error) => setProblem(error.message),
    );
  };
  return (
    <dialog ref={box} class="help question" onClose={onDone}>
      <h2>{t("ask_recommended")}</h2>
      <p>{t("ask_waits")}</p>
      <p class="faint">{t("ask_what")}</p>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <div class="buttons">
        <button class="main" onClick={() => take(true)}>
          {t("ask_yes_continue")}
        </button>
        <button onClick={() => take(false)}>{t("ask_yes")}</button>
        <button onClick={() => (onDone(), go({ list: "watch" }, true))}>{t("ask_no")}</button>
      </div>
    </dialog>
  );
}
