// What a value is compared with: the step before, another step, or another rank; and how closely.
import { useEffect, useState } from "preact/hooks";
import type { ValueFacts } from "../api/types";
import { useLooking } from "../state/looking";
import { Choice } from "./choice";
import { change, type TensorState } from "./state";
import { useTensorTexts } from "./texts";

const MOST_STEPS = 200;

export function AgainstBar({ facts, state }: { facts: ValueFacts; state: TensorState }) {
  const t = useTensorTexts();
  const { strip } = useLooking();
  const steps = (strip?.recorded ?? []).filter((step) => step !== facts.step).slice(-MOST_STEPS);
  const isLive = facts.held === "kept" || facts.held === "parameter";
  const others = facts.ranks.filter((rank) => rank !== facts.rank);
  if (facts.previous === null && !others.length && (isLive || steps.length === 0)) return null;
  const choose = (against: string): void =>
    change({ against, show: against ? "difference" : "now", window: "" }, false);
  return (
    <span class="field against">
      {t("against")}
      <select aria-label={t("against")} value={state.against} onChange={(e) => choose(e.currentTarget.value)}>
        <option value="">{t("nothing")}</option>
        {facts.previous !== null && <option value="p">{t("previous_step", facts.previous)}</option>}
        {others.map((rank) => (
          <option key={`r${rank}`} value={`r${rank}`}>
            {t("rank_n", rank)}
          </option>
        ))}
        {!isLive &&
          steps.map((step) => (
            <option key={step} value={`s${step}`}>
              {t("hit_at", step)}
            </option>
          ))}
      </select>
      {state.against && (
        <>
          <Choice
            of={["now", "before", "difference"]}
            value={state.show}
            onChoose={(show) => change({ show })}
          />
          {state.show === "difference" && (
            <>
              <Tolerance name="rtol" value={state.rtol} />
              <Tolerance name="atol" value={state.atol} />
            </>
          )}
        </>
      )}
    </span>
  );
}

function Tolerance({ name, value }: { name: "rtol" | "atol"; value: string }) {
  const t = useTensorTexts();
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const enter = (): void => {
    const number = Number(typed);
    if (typed.trim() === "" || (Number.isFinite(number) && number >= 0))
      change({ [name]: typed.trim() === "" || number === 0 ? "" : String(number) });
    else setTyped(value);
  };
  return (
    <label class="field" title={t("tolerance_tip")}>
      {t(name)}
      <input
        class="num tolerance"
        data-tolerance={name}
        placeholder="0"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onBlur={enter}
        onKeyDown={(event) => event.key === "Enter" && enter()}
      />
    </label>
  );
}
