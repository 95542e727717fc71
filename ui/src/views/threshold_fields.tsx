// The thresholds of a watchpoint: those of its condition, or the numbers in its expression.
import { useEffect, useState } from "preact/hooks";
import { question, useAnswer } from "../api/client";
import type { ConditionFacts, ExpressionThreshold, ParameterFacts } from "../api/types";
import { pointOf, type Draft } from "../state/draft";
import { useTexts } from "../texts";
import { ThresholdSlider } from "./threshold_slider";

type Change = (parts: Partial<Draft>) => void;

/** The parameters of a condition, with a slider for one of its thresholds. */
export function Parameters({ of, facts, change }: { of: Draft; facts: ConditionFacts; change: Change }) {
  const t = useTexts();
  if (!facts.parameters.length) return null;
  const thresholds = facts.parameters.filter((each) => each.is_threshold);
  const shown = thresholds.find((each) => of.params[each.name]) ?? thresholds[0];
  const set = (name: string, text: string): void => change({ params: { ...of.params, [name]: text } });
  return (
    <fieldset class="params">
      {facts.parameters.map((each) => (
        <label key={each.name} title={`${each.name}: ${each.allowed}`}>
          <span>{each.words}</span>
          <input
            name={each.name}
            inputMode="decimal"
            value={of.params[each.name] ?? ""}
            placeholder={each.default === null ? "" : String(each.default)}
            onInput={(e) => set(each.name, e.currentTarget.value)}
          />
          <span class="unit">{each.unit}</span>
          <span class="faint small">{each.low === null ? "" : each.allowed}</span>
        </label>
      ))}
      {thresholds.length > 1 && <p class="faint small">{t("one_is_enough")}</p>}
      {shown && (
        <ThresholdSlider
          key={`${facts.abbr}${shown.name}`}
          asked={askedOf(of, shown)}
          parameter={shown.name}
          words={shown.words}
          given={givenOf(of, shown)}
          decides
          onChange={(text) => set(shown.name, text)}
        />
      )}
    </fieldset>
  );
}

/** The watchpoint with one threshold only; which number it has does not matter to its history. */
function askedOf(of: Draft, parameter: ParameterFacts): unknown {
  const { name: _name, ...point } = pointOf(of);
  const others = Object.entries(point.params).filter(([name]) => !/_(gt|lt|ge)$/.test(name));
  return { ...point, params: { ...Object.fromEntries(others), [parameter.name]: 1 } };
}

function givenOf(of: Draft, parameter: ParameterFacts): number {
  const typed = of.params[parameter.name];
  return typed?.trim() ? Number(typed) : Number(parameter.default ?? NaN);
}

interface Understood {
  text: string;
  thresholds: ExpressionThreshold[];
}

/** The numbers in an expression, each with a slider over the history of what it is compared with. */
export function ExpressionThresholds({ of, change }: { of: Draft; change: Change }) {
  const text = of.condition;
  const [known, setKnown] = useState<Understood>({ text: "", thresholds: [] });
  const typed = known.text !== text;
  const answer = useAnswer<ExpressionThreshold[]>(typed ? question("/expression", { text }) : null, false);
  useEffect(() => {
    if (typed && answer.data && !answer.stale) setKnown({ text, thresholds: answer.data });
  }, [answer.data, answer.stale]);
  const { name: _name, ...point } = pointOf(of);
  const move = (place: number, number: string): void => {
    const moved = withNumber(known, place, number);
    setKnown(moved);
    change({ condition: moved.text });
  };
  if (!known.thresholds.length) return null;
  return (
    <div class={typed ? "params stale" : "params"}>
      {known.thresholds.map((each, place) => (
        <div key={place}>
          <code>
            {each.measured} {each.sign} {known.text.slice(each.start, each.end)}
          </code>
          <ThresholdSlider
            asked={{ ...point, condition: withoutNumbers(known) }}
            parameter={String(place)}
            words={`${each.measured} ${each.sign}`}
            given={Number(each.value)}
            decides={known.thresholds.length === 1}
            onChange={(number) => move(place, number)}
          />
        </div>
      ))}
    </div>
  );
}

/** The expression with another number at one of its thresholds; those behind it move along. */
function withNumber({ text, thresholds }: Understood, place: number, number: string): Understood {
  const { start, end } = thresholds[place]!;
  const by = number.length - (end - start);
  const shifted = (at: number): number => (at >= end ? at + by : at);
  return {
    text: text.slice(0, start) + number + text.slice(end),
    thresholds: thresholds.map((each, index) =>
      index === place
        ? { ...each, value: Number(number), end: end + by }
        : { ...each, start: shifted(each.start), end: shifted(each.end) },
    ),
  };
}

/** With the same number everywhere: histories do not depend on them, and are asked for once. */
function withoutNumbers(of: Understood): string {
  return of.thresholds.reduce((found, _, place) => withNumber(found, place, "1"), of).text;
}
