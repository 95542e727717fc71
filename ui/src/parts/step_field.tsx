// The step that is looked at: a number to type, with a way back and on.
import { useEffect, useState } from "preact/hooks";
import { useLooking } from "../state/looking";
import { go } from "../state/place";
import { lastStep, moveStep } from "../state/steps";
import { useTexts } from "../texts";

export function StepField() {
  const t = useTexts();
  const { place, strip, step } = useLooking();
  const shown = place.step ?? step;
  const [typed, setTyped] = useState<string | null>(null);
  useEffect(() => setTyped(null), [shown]);
  const last = strip?.steps.length ? lastStep(strip) : undefined;
  const enter = (): void => {
    const number = Number(typed);
    if (typed !== null && typed.trim() !== "" && Number.isInteger(number) && number >= 0) {
      go({ step: Math.min(number, last ?? number) });
    }
    setTyped(null);
  };
  return (
    <span class="stepfield">
      <span class="label">{t("step")}</span>
      <button class="quiet" title={t("earlier_step")} onClick={() => moveStep(strip, -1)}>
        ◀
      </button>
      <input
        id="step"
        class="num"
        inputMode="numeric"
        aria-label={t("step")}
        value={typed ?? shown ?? ""}
        onInput={(e) => setTyped(e.currentTarget.value)}
        onBlur={enter}
        onKeyDown={(e) => e.key === "Enter" && e.currentTarget.blur()}
      />
      <button class="quiet" title={t("later_step")} onClick={() => moveStep(strip, 1)}>
        ▶
      </button>
      <span class="faint num">/ {last ?? "–"}</span>
      <button
        class={place.step === null ? "chip on" : "chip"}
        title={t("latest_tip")}
        aria-pressed={place.step === null}
        onClick={() => go({ step: null })}
      >
        {t("latest")}
      </button>
    </span>
  );
}
