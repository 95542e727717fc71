// The table behind the strip.
import type { StepLine, Steps } from "../api/types";
import { count, seconds } from "../format";
import { CopyMenu } from "../parts/copy";
import { Empty } from "../parts/empty";
import { Figure } from "../parts/number";
import { usePaged } from "../parts/paged";
import { VirtualList } from "../parts/virtual";
import { stepsCode } from "../python";
import { aboutRank, useLooking } from "../state/looking";
import { go } from "../state/place";
import { useTexts } from "../texts";

const ROW = 24;

export function StepsView() {
  const t = useTexts();
  const { place, run, step } = useLooking();
  const list = usePaged<Steps, StepLine>(
    aboutRank(place, "steps"),
    (first, size) => aboutRank(place, "steps", { first: first || null, count: size }),
    (answer) => answer.steps,
  );
  if (list.total === 0) return <Empty say="steps_empty" />;
  const at = place.step ?? step;
  return (
    <div class="steptable">
      <div class="steprow head">
        <span class="end">{t("step")}</span>
        <span class="end">{t("loss")}</span>
        <span class="end">{t("gradient_norm")}</span>
        <span class="end">{t("time")}</span>
        <span class="end">{t("operators")}</span>
        <span class="end">{t("hit_count")}</span>
        <span class="note">{t("note")}</span>
        <CopyMenu
          json={() => Array.from({ length: list.total ?? 0 }, (_, index) => list.at(index)).filter(Boolean)}
          python={() => stepsCode(run?.path ?? "last", place.rank)}
        />
      </div>
      <VirtualList
        count={list.total ?? 0}
        height={ROW}
        onRange={list.see}
        role="list"
        label={t("steps")}
        row={(index) => <Line key={index} line={list.at(index)} at={at} />}
      />
    </div>
  );
}

function Line({ line, at }: { line: StepLine | undefined; at: number | null }) {
  const t = useTexts();
  if (!line) return <div class="steprow" style={{ height: `${ROW}px` }} />;
  const notes = [
    line.skipped ? t("skipped") : "",
    line.complete ? "" : t("incomplete"),
    line.recorded ? "" : t("thinned"),
  ];
  return (
    <div
      class={line.step === at ? "steprow chosen" : "steprow"}
      role="listitem"
      data-step={line.step}
      style={{ height: `${ROW}px` }}
      onClick={() => go({ step: line.step })}
    >
      <span class="end num">{line.step}</span>
      <span class="end" title={line.losses.join(", ")}>
        <Figure of={line.losses[line.losses.length - 1] ?? null} />
      </span>
      <span class="end">
        <Figure of={line.gradient_norm} />
      </span>
      <span class="end num">{seconds(line.seconds)}</span>
      <span class="end num">
        {count(line.operators)}
        {line.passes > 1 ? ` ×${line.passes}` : ""}
      </span>
      <span class="end num">{line.hits > 0 && <span class="hits">{line.hits}</span>}</span>
      <span class="note faint">{notes.filter(Boolean).join(" · ")}</span>
    </div>
  );
}
