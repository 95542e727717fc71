// A watchpoint being written: its condition, its numbers, what it looks at, and what it would have found.
import { useEffect, useState } from "preact/hooks";
import { rankPath, runPath, useAnswer } from "../api/client";
import { usePosted } from "../api/posted";
import type { ConditionFacts, Preview } from "../api/types";
import { changeWatch, type Change, type WatchpointLine } from "../api/watch";
import { count, shownPlace } from "../format";
import { Empty, Waiting } from "../parts/empty";
import {
  draft,
  draftOf,
  isComplete,
  pointOf,
  START_EXPRESSION,
  watchNew,
  type Draft,
} from "../state/draft";
import { useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { useStore } from "../state/store";
import { named, useTexts } from "../texts";
import { ExpressionThresholds, Parameters } from "./threshold_fields";
import { WatchNodes } from "./watch_nodes";

const TARGETS = ["tensor", "weight", "activation", "gradient", "training"] as const;
const LAST = 100;

export function WatchEditor() {
  const t = useTexts();
  const { place } = useLooking();
  const now = useStore(draft);
  const conditions = useAnswer<ConditionFacts[]>("/conditions", false);
  useOpened(place.run, place.watchpoint);
  if (!now)
    return (
      <div class="editor none">
        <Empty say="edit_empty" />
        <button class="main" onClick={() => watchNew()}>
          + {t("watch_new")}
        </button>
      </div>
    );
  if (!conditions.data) return <Waiting answer={conditions} />;
  return <Form of={now} conditions={conditions.data} />;
}

/** A link to a watchpoint opens it. */
function useOpened(run: string, number: number): void {
  const now = useStore(draft);
  const wanted = now === null && number > 0;
  const points = useAnswer<WatchpointLine[]>(wanted ? `${runPath(run)}/watchpoints` : null, false);
  useEffect(() => {
    const found = points.data?.find((point) => point.id === number);
    if (wanted && found) draft.set(draftOf(found));
  }, [points.data]);
}

function Form({ of, conditions }: { of: Draft; conditions: ConditionFacts[] }) {
  const t = useTexts();
  const { place } = useLooking();
  const [problem, setProblem] = useState("");
  const change = (parts: Partial<Draft>): void => draft.set({ ...of, ...parts });
  const facts = conditions.find((each) => each.abbr === of.condition);
  const close = (): void => {
    draft.set(null);
    go({ view: "source", list: "watch", watchpoint: 0 });
  };
  const save = (): void => {
    const point = pointOf(of);
    const order: Change =
      of.id === null
        ? { action: "add", watch: { watchpoints: [point] } }
        : { action: "change", id: of.id, parts: point as Partial<WatchpointLine> };
    changeWatch(place.run, order).then(close, (error: Error) => setProblem(error.message));
  };
  return (
    <div class="editor">
      <form onSubmit={(e) => (e.preventDefault(), save())}>
        <div class="viewbar">
          <b>{of.id === null ? t("edit_new") : t("edit_of", of.id)}</b>
          <input
            class="watchname"
            value={of.name}
            maxLength={200}
            aria-label={t("watch_name")}
            placeholder={t("watch_name_hint")}
            onInput={(e) => change({ name: e.currentTarget.value })}
          />
          <label class="field">
            <input
              type="checkbox"
              checked={of.enabled}
              onChange={(e) => change({ enabled: e.currentTarget.checked })}
            />
            {t("watch_enabled")}
          </label>
          <span class="grow" />
          <button type="button" onClick={close}>
            {t("cancel")}
          </button>
          <button class="main">{of.id === null ? t("create") : t("save")}</button>
        </div>
        {problem && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        <div class="editcolumns">
          <div class="editleft">
            <ConditionFields of={of} conditions={conditions} change={change} />
            {of.isExpression ? (
              <ExpressionThresholds of={of} change={change} />
            ) : (
              facts && <Parameters of={of} facts={facts} change={change} />
            )}
            {isComplete(of, facts) ? <PreviewPanel of={of} /> : <p class="faint">{t("give_threshold")}</p>}
          </div>
          <WatchNodes of={of} facts={facts} change={change} />
        </div>
      </form>
    </div>
  );
}

interface FieldsProps {
  of: Draft;
  conditions: ConditionFacts[];
  change: (parts: Partial<Draft>) => void;
}

function ConditionFields({ of, conditions, change }: FieldsProps) {
  const t = useTexts();
  const facts = conditions.find((each) => each.abbr === of.condition);
  const target = of.isExpression ? "expression" : (facts?.target ?? "tensor");
  const choose = (wanted: string): void => {
    if (wanted === "expression") {
      change({ condition: START_EXPRESSION, isExpression: true, params: {} });
      return;
    }
    const first = conditions.find((each) => each.target === wanted && each.abbr !== "EX")!;
    take(first);
  };
  const take = (found: ConditionFacts): void => {
    const { class: _, ...rest } = of.select;
    const select = found.target === "tensor" ? of.select : rest;
    change({ condition: found.abbr, isExpression: false, params: {}, select });
  };
  return (
    <>
      <div class="pair">
        <label class="field">
          {t("watch_class")}
          <select value={target} onChange={(e) => choose(e.currentTarget.value)}>
            {TARGETS.map((name) => (
              <option key={name} value={name}>
                {named("target", name)}
              </option>
            ))}
            <option value="expression">{t("target_expression")}</option>
          </select>
        </label>
        {!of.isExpression && (
          <label class="field">
            {t("watch_condition")}
            <select
              value={of.condition}
              onChange={(e) => take(conditions.find((each) => each.abbr === e.currentTarget.value)!)}
            >
              {conditions
                .filter((each) => each.target === target && each.abbr !== "EX")
                .map((each) => (
                  <option key={each.abbr} value={each.abbr}>
                    {each.abbr} · {each.id.replaceAll("_", " ")}
                  </option>
                ))}
            </select>
          </label>
        )}
      </div>
      {of.isExpression ? (
        <label class="field wide">
          <input
            class="mono"
            value={of.condition}
            aria-label={t("target_expression")}
            spellcheck={false}
            maxLength={1000}
            onInput={(e) => change({ condition: e.currentTarget.value })}
          />
          <span class="faint small">{t("expression_hint")}</span>
        </label>
      ) : (
        <p class="faint">{facts?.summary}</p>
      )}
    </>
  );
}

function PreviewPanel({ of }: { of: Draft }) {
  const t = useTexts();
  const { place } = useLooking();
  const path = `${rankPath(place.run, place.rank)}/watch/preview?last=${LAST}`;
  const found = usePosted<Preview>(path, pointOf(of), true);
  const data = found.data;
  if (found.error)
    return (
      <p class="problem small" role="alert">
        {found.error}
      </p>
    );
  if (!data) return <p class="faint">{t("preview_busy")}</p>;
  const unsure = data.unchecked.reduce((sum, each) => sum + Number(each.count ?? 0), 0);
  return (
    <section class={found.busy ? "preview stale" : "preview"} aria-live="polite">
      <p>
        <b class={data.hits ? "bad" : ""}>{t("preview_hits", count(data.hits), count(data.steps))}</b>
        {data.hits > 0 && <> {t("preview_steps", count(data.steps_hit))}</>}
      </p>
      {data.steps === 0 && <p class="faint small">{t("preview_empty")}</p>}
      {data.examples.slice(0, 3).map((hit, index) => (
        <button
          type="button"
          key={index}
          class="hitline"
          title={hit.message}
          onClick={() => (hit.node === null ? go({ step: hit.step }) : select(hit.node, { step: hit.step }))}
        >
          {t("step")} {hit.step} · {hit.message} · {shownPlace(hit.where) || hit.parameter || hit.name}
        </button>
      ))}
      {unsure > 0 && (
        <p class="faint small" title={data.unchecked.map((each) => String(each.reason)).join("\n")}>
          {t("preview_unsure", count(unsure), String(data.unchecked[0]?.reason ?? ""))}
        </p>
      )}
    </section>
  );
}
