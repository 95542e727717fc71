// What a watchpoint looks at: by words, or by ticks in the tree of the model.
import { useState } from "preact/hooks";
import { question, rankPath, request } from "../api/client";
import { usePosted } from "../api/posted";
import type { ConditionFacts, Selected, SelectedValue, Ticked } from "../api/types";
import { count, lastPart } from "../format";
import { Name } from "../parts/name";
import { isTicks, selectionOf, type Draft } from "../state/draft";
import { useLooking } from "../state/looking";
import { useTexts, type TextName } from "../texts";

const WORDS = ["node", "regex", "op_type", "scope", "line", "parameter"] as const;
const SHOWN = 200;

interface Props {
  of: Draft;
  facts: ConditionFacts | undefined;
  change: (parts: Partial<Draft>) => void;
}

export function WatchNodes({ of, facts, change }: Props) {
  const t = useTexts();
  const { place } = useLooking();
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const point = selectionOf(of, facts);
  const target = of.isExpression ? "tensor" : (facts?.target ?? "tensor");
  const base = `${rankPath(place.run, place.rank)}/watch`;
  const found = usePosted<Selected>(question(`${base}/selection`, { text, count: SHOWN }), point, true);
  if (target === "training") return <p class="editright faint">{t("about_training")}</p>;
  const tick = (on: boolean, query: { scope?: string; node?: number }): void => {
    const asked = new URLSearchParams({ on: String(on) });
    if (query.scope !== undefined) asked.set("scope", query.scope);
    if (query.node !== undefined) asked.set("node", String(query.node));
    request<Ticked>("POST", `${base}/tick?${asked.toString()}`, point).then(
      (ticked) => (setProblem(""), change({ select: ticked.select, mute: [...ticked.mute] })),
      (error: Error) => setProblem(error.message),
    );
  };
  const data = found.data;
  return (
    <div class="editright">
      <div class="listhead">
        <b>{data ? t("selected_count", count(data.selected), count(data.total)) : t("loading")}</b>
        {data && data.muted > 0 && <span class="faint">{t("unticked_count", count(data.muted))}</span>}
        <span class="grow" />
        <button type="button" onClick={() => tick(true, { scope: "" })}>
          {t("tick_all")}
        </button>
        <button type="button" onClick={() => tick(false, { scope: "" })}>
          {t("tick_none")}
        </button>
      </div>
      <SelectionWords of={of} target={target} change={change} />
      {(problem || found.error) && (
        <p class="problem small" role="alert">
          {problem || found.error}
        </p>
      )}
      <input
        type="search"
        class="nodesearch"
        value={text}
        placeholder={t("tick_search")}
        aria-label={t("tick_search")}
        onInput={(e) => setText(e.currentTarget.value)}
      />
      <div class="ticks" role="tree" aria-label={t("watch_nodes")}>
        {text.trim() ? (
          <>
            {data?.values.map((value) => <Value key={`${value.node}${value.parameter}`} of={value} depth={0} tick={tick} />)}
            {data && data.found > data.values.length && (
              <p class="faint">{t("more", count(data.found - data.values.length))}</p>
            )}
          </>
        ) : (
          <Branch scope="" depth={0} base={base} point={point} tick={tick} />
        )}
      </div>
    </div>
  );
}

/** The parts of a selection that are words. */
function SelectionWords({ of, target, change }: Omit<Props, "facts"> & { target: string }) {
  const t = useTexts();
  const set = (name: string, value: string): void => {
    const { [name]: _, ...rest } = of.select;
    change({ select: value ? { ...rest, [name]: value } : rest });
  };
  const ticks = isTicks(of.select.regex);
  return (
    <details class="words" open={WORDS.some((name) => of.select[name] && !(name === "regex" && ticks))}>
      <summary>{t("by_words")}</summary>
      <div class="wordgrid">
        {target === "tensor" && (
          <label>
            <span>{t("watch_of")}</span>
            <select value={of.select.class ?? ""} onChange={(e) => set("class", e.currentTarget.value)}>
              <option value="">{t("target_tensor")}</option>
              <option value="weight">{t("target_weight")}</option>
              <option value="activation">{t("target_activation")}</option>
              <option value="gradient">{t("target_gradient")}</option>
            </select>
          </label>
        )}
        {WORDS.map((name) => (
          <label key={name} title={t(`by_${name}_tip` as TextName)}>
            <span>{t(`by_${name}` as TextName)}</span>
            <input
              name={`select-${name}`}
              spellcheck={false}
              maxLength={1000}
              value={name === "regex" && ticks ? "" : (of.select[name] ?? "")}
              placeholder={name === "regex" && ticks ? t("by_ticks", of.select.regex!.split("|").length) : ""}
              onInput={(e) => set(name, e.currentTarget.value)}
            />
          </label>
        ))}
      </div>
    </details>
  );
}

type Tick = (on: boolean, query: { scope?: string; node?: number }) => void;

interface BranchProps {
  scope: string;
  depth: number;
  base: string;
  point: unknown;
  tick: Tick;
}

/** What is in a scope; asked for when it is opened. */
function Branch({ scope, depth, base, point, tick }: BranchProps) {
  const path = `${base}/selection?${new URLSearchParams({ scope }).toString()}`;
  const found = usePosted<Selected>(path, point, true);
  const [open, setOpen] = useState<ReadonlySet<string> | null>(null);
  if (!found.data) return null;
  const { scopes, values } = found.data;
  const shown = open ?? new Set(depth < 2 ? scopes.slice(0, 1).map((each) => each.name) : []);
  const toggle = (name: string): void => {
    const next = new Set(shown);
    if (!next.delete(name)) next.add(name);
    setOpen(next);
  };
  return (
    <>
      {scopes.map((each) => (
        <div key={each.name} role="treeitem" aria-expanded={shown.has(each.name)}>
          <div class="tickrow" style={{ paddingLeft: `${depth * 14}px` }} title={each.name}>
            <button type="button" class="quiet twist" aria-label={each.name} onClick={() => toggle(each.name)}>
              {shown.has(each.name) ? "▾" : "▸"}
            </button>
            <label>
              <Box
                on={each.selected === each.total}
                some={each.selected > 0 && each.selected < each.total}
                onChange={(on) => tick(on, { scope: each.name })}
                data={each.name}
              />
              <b>{each.label}</b>
            </label>
            <span class="grow" />
            <span class="faint num small">
              {each.selected} / {each.total}
            </span>
          </div>
          {shown.has(each.name) && (
            <Branch scope={each.name} depth={depth + 1} base={base} point={point} tick={tick} />
          )}
        </div>
      ))}
      {values.map((value) => (
        <Value key={`${value.node}${value.parameter}`} of={value} depth={depth} tick={tick} isShort />
      ))}
    </>
  );
}

function Value({ of, depth, tick, isShort = false }: { of: SelectedValue; depth: number; tick: Tick; isShort?: boolean }) {
  const shown = of.parameter || (isShort ? lastPart(of.name) : of.name);
  return (
    <div class="tickrow" role="treeitem" style={{ paddingLeft: `${depth * 14 + 20}px` }} title={of.name}>
      <label>
        <Box on={of.on} some={false} onChange={(on) => tick(on, { node: of.node })} data={of.parameter || of.name} />
        <Name of={shown} tail={20} />
      </label>
    </div>
  );
}

function Box({ on, some, onChange, data }: { on: boolean; some: boolean; onChange: (on: boolean) => void; data: string }) {
  return (
    <input
      type="checkbox"
      checked={on}
      data-tick={data}
      ref={(box) => void (box && (box.indeterminate = some))}
      onChange={(e) => onChange(e.currentTarget.checked)}
    />
  );
}
