// The hits on a value: threshold, actual value, and what helps.
import { useState } from "preact/hooks";
import type { HitLine, ValueFacts, ValueHit } from "../api/types";
import { short } from "../format";
import { go } from "../state/place";
import { useTensorTexts } from "./texts";

export function Hits({ facts }: { facts: ValueFacts }) {
  const t = useTensorTexts();
  const [all, setAll] = useState(false);
  const here = facts.hits.filter((one) => one.hit.step === facts.step);
  const other = facts.hits.filter((one) => one.hit.step !== facts.step);
  if (!facts.hits.length) return null;
  return (
    <div class="tensorhits">
      {here.map((one, place) => (
        <Hit key={place} of={one} />
      ))}
      {other.length > 0 && (
        <p class="otherhits">
          <span class="faint">
            {other.length} {t("hits")} {t("hit_other")}:
          </span>{" "}
          {(all ? other : other.slice(0, 6)).map(({ hit }, place) => (
            <button key={place} class="link" title={hit.message} onClick={() => go({ step: hit.step })}>
              {hit.label} {t("hit_at", hit.step)}
            </button>
          ))}
          {!all && other.length > 6 && (
            <button class="link" onClick={() => setAll(true)}>
              +{other.length - 6}
            </button>
          )}
        </p>
      )}
    </div>
  );
}

function Hit({ of }: { of: ValueHit }) {
  const t = useTensorTexts();
  const { hit } = of;
  const [threshold, actual] = [pairs(hit.params), pairs(hit.actual)];
  return (
    <p class="tensorhit" title={`${of.summary}\n${hit.message}`}>
      <b class="condition">{hit.condition}</b>
      <span>{hit.label === hit.condition ? of.summary : hit.label}</span>
      {threshold && (
        <span>
          <span class="faint">{t("threshold")}</span> <span class="num">{threshold}</span>
        </span>
      )}
      {actual && (
        <span>
          <span class="faint">{t("actual")}</span> <span class="num bad">{actual}</span>
        </span>
      )}
      <span class="advice">
        <span class="faint">{t("advice")}</span> {of.advice}
      </span>
    </p>
  );
}

function pairs(of: HitLine["params"]): string {
  return Object.entries(of)
    .map(([name, number]) => `${name} ${short(number)}`)
    .join(", ");
}
