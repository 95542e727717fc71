// Hits of the same kind together, each with its history over the steps of the run.
import type { HitHistory } from "../api/types";
import { brief, short, shownPlace, value, type Num } from "../format";
import { Name } from "../parts/name";
import { useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { useTexts } from "../texts";
import { askedWords, ViewButton } from "./hit_parts";

export const GROUP_ROW = 80;
const LANE = { width: 300, height: 18 };

export function GroupItem({ group }: { group: HitHistory | undefined }) {
  const t = useTexts();
  const { place } = useLooking();
  if (!group) return <div class="item" style={{ height: `${GROUP_ROW}px` }} />;
  const chosen = group.node !== null && group.node === place.node;
  const step = group.first_step;
  const open = (): void => (group.node === null ? go({ step }) : select(group.node, { step }));
  const numbers = [askedWords(group.params, t), foundWords(group, t)].filter(Boolean).join(" · ");
  return (
    <div
      class={chosen ? "item hititem chosen" : "item hititem"}
      role="listitem"
      data-row
      style={{ height: `${GROUP_ROW}px` }}
      onClick={open}
      title={[group.message, numbers].join("\n")}
    >
      <div class="itemline">
        <span class="condition">{group.label}</span>
        <span class="num">
          {group.count > 1 ? t("hits_steps", step, group.last_step) : `${t("step")} ${step}`}
        </span>
        {group.count > 1 && <span class="hits">×{brief(group.count)}</span>}
        <span class="grow" />
        <span class="where">{shownPlace(group.where)}</span>
        {group.node !== null && <ViewButton node={group.node} value="output:0" step={step} />}
      </div>
      <div class="itemline clip">{group.message}</div>
      <div class="itemline small">
        <Name of={group.parameter || group.name} tail={18} />
        <span class="grow" />
        <span class="faint clip">{numbers}</span>
      </div>
      <HitLane group={group} />
    </div>
  );
}

/** What was found, from the first hit to the last. */
function foundWords(group: HitHistory, t: ReturnType<typeof useTexts>): string {
  const found = Object.entries(group.actual).map(([name, numbers]) => {
    const [first, last] = [numbers[0], numbers[numbers.length - 1]];
    return `${name} ${short(first)}${numbers.length > 1 ? ` … ${short(last)}` : ""}`;
  });
  return found.length ? `${t("actual")} ${found.join(", ")}` : "";
}

/** Where among all steps the hits are; as high as what was found, if that is a number. */
function HitLane({ group }: { group: HitHistory }) {
  const t = useTexts();
  const { strip, place } = useLooking();
  const steps = strip?.steps ?? [];
  const [first, last] = [Math.min(0, steps[0] ?? 0), Math.max(steps[steps.length - 1] ?? 0, group.last_step)];
  const x = (step: number): number => 3 + ((step - first) / Math.max(1, last - first)) * (LANE.width - 6);
  const y = heights(group);
  return (
    <svg
      class="hitlane"
      viewBox={`0 0 ${LANE.width} ${LANE.height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={t("hits_history")}
    >
      <line class="base" x1={0} x2={LANE.width} y1={LANE.height - 1} y2={LANE.height - 1} />
      {place.step !== null && (
        <line class="now" x1={x(place.step)} x2={x(place.step)} y1={0} y2={LANE.height} />
      )}
      {group.steps.map((step, index) => (
        <line key={step} class="mark" x1={x(step)} x2={x(step)} y1={LANE.height - 1} y2={y[index]} />
      ))}
    </svg>
  );
}

/** How high the mark of each step is, on a log scale of what was found. */
function heights(group: HitHistory): number[] {
  const numbers: Num[] = Object.values(group.actual)[0] ?? [];
  const sizes = numbers.map((one) => Math.log10(Math.abs(value(one) ?? NaN)));
  const known = sizes.filter(Number.isFinite);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  return group.steps.map((_, index) => {
    const size = sizes[index] ?? NaN;
    const share = Number.isFinite(size) && high > low ? (size - low) / (high - low) : 1;
    return LANE.height - 6 - share * (LANE.height - 8);
  });
}
