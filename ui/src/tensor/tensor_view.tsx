// A tensor in full: what is known of it on top, below it one of several ways to look into it.
import { useEffect, useState } from "preact/hooks";
import { request, revision, runPath, useAnswer } from "../api/client";
import type { Layout, LiveState, Numbers, ValueFacts } from "../api/types";
import { count, full, isBad, kind, type Num } from "../format";
import { CopyMenu } from "../parts/copy";
import { Empty, Waiting } from "../parts/empty";
import { isTyping } from "../state/keys";
import { useLooking } from "../state/looking";
import { AgainstBar } from "./against";
import { Choice } from "./choice";
import { Export, pythonOf } from "./export";
import { Heat } from "./heat";
import { Histogram } from "./histogram";
import { Hits } from "./hits";
import { Jump } from "./jump";
import { shown } from "./numbers";
import { Pictures } from "./pictures";
import { Relations } from "./relations";
import { SliceFields } from "./slice_fields";
import { change, LOOKS, useTensor, type Asking, type Look } from "./state";
import { Statistics } from "./statistics";
import { Table } from "./table";
import { useTensorTexts, type TensorText } from "./texts";
import { TrendLook } from "./trend";

const OF_ELEMENTS: Look[] = ["heat", "table", "histogram", "statistics", "pictures"];

export function TensorView() {
  const { place, moving, run } = useLooking();
  const plain = useTensor();
  const [io, slot] = place.value.split(":");
  const isValue = place.node !== null && (io === "input" || io === "output") && /^\d+$/.test(slot ?? "");
  const live = moving && (run?.live ?? false);
  const answer = useAnswer<ValueFacts>(isValue ? plain.ask("") : null, live);
  const facts = answer.stale && answer.data?.node !== place.node ? undefined : answer.data;
  const asking = useTensor(facts?.previous ?? null);
  if (!isValue) return <Empty say="value_empty" />;
  if (!facts) return <Waiting answer={answer} />;
  return <Opened facts={facts} asking={asking} live={live} />;
}

function Opened({ facts, asking, live }: { facts: ValueFacts; asking: Asking; live: boolean }) {
  const t = useTensorTexts();
  const { run } = useLooking();
  const { state } = asking;
  const looks = LOOKS.filter(
    (look) => (facts.held || !OF_ELEMENTS.includes(look)) && (look !== "pictures" || facts.pictures !== null),
  );
  const look = looks.includes(state.look) ? state.look : looks[0]!;
  useWideKey(state.wide);
  return (
    <div class={state.wide ? "tensorview wide" : "tensorview"}>
      <div class="viewbar">
        <code class="address" title={facts.address}>
          {facts.address.replace(/^.*\//, "")}
        </code>
        <code class="fixed">{kind(facts.dtype, facts.shape)}</code>
        <span class="faint fixed">{facts.step === null ? "" : t("hit_at", facts.step)}</span>
        <Export asking={asking} facts={facts} />
        <button
          class="quiet"
          title={t(state.wide ? "narrow" : "wide")}
          aria-pressed={state.wide}
          onClick={() => change({ wide: !state.wide })}
        >
          ⤢
        </button>
        <CopyMenu json={() => facts} python={() => pythonOf(run?.path ?? "last", facts, asking)} />
      </div>
      {facts.numbers && <TopNumbers of={facts.numbers} asking={asking} />}
      <Hits facts={facts} />
      <nav class="tabs looks" role="tablist">
        {looks.map((name) => (
          <button
            key={name}
            role="tab"
            aria-selected={name === look}
            class={name === look ? "on" : ""}
            data-look={name}
            onClick={() => change({ look: name }, false)}
          >
            {t(name)}
          </button>
        ))}
        <span class="grow" />
        {facts.held && <span class="held faint">{t(`from_${facts.held}` as TensorText)}</span>}
      </nav>
      {!facts.held && <NotHeld facts={facts} />}
      {OF_ELEMENTS.includes(look) && facts.held ? (
        <Elements facts={facts} asking={asking} look={look} live={live} />
      ) : look === "trend" ? (
        <TrendLook asking={asking} facts={facts} />
      ) : (
        <Relations asking={asking} live={live} />
      )}
    </div>
  );
}

/** `f` uses the whole window, and gives it back. */
function useWideKey(isWide: boolean): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "f") change({ wide: !isWide });
      else if (event.key === "Escape" && isWide) change({ wide: false });
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [isWide]);
}

function TopNumbers({ of, asking }: { of: Numbers; asking: Asking }) {
  const t = useTensorTexts();
  const names = ["min", "max", "mean", "std", "mean_abs", "l2"] as const;
  const counts: [string, Num, boolean][] = [
    ["NaN", of.nan, true],
    ["+Inf", of.posinf, true],
    ["−Inf", of.neginf, true],
    [t("zero"), of.zero, false],
    [t("negative"), of.negative, false],
    [t("positive"), of.positive, false],
  ];
  return (
    <dl class="topnumbers">
      {names.map((name) => (
        <div key={name}>
          <dt>{t(name)}</dt>
          <dd class={isBad(of[name]) ? "num bad" : "num"} title={full(of[name])}>
            {shown(of[name], asking.state)}
          </dd>
        </div>
      ))}
      {counts.map(([name, found, bad]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class={bad && Number(found) > 0 ? "num bad" : "num"}>{count(found)}</dd>
        </div>
      ))}
    </dl>
  );
}

interface ElementsProps {
  facts: ValueFacts;
  asking: Asking;
  look: Look;
  live: boolean;
}

function Elements({ facts, asking, look, live }: ElementsProps) {
  const t = useTensorTexts();
  const { state, place } = asking;
  const shape = facts.shape ?? [];
  const answer = useAnswer<Layout>(asking.askShown("layout"), false);
  const layout = answer.error ? undefined : answer.data;
  const problem = answer.error?.message ?? "";
  const bad = {
    nan: Number(facts.numbers?.nan ?? 0),
    posinf: Number(facts.numbers?.posinf ?? 0),
    neginf: Number(facts.numbers?.neginf ?? 0),
  };
  return (
    <>
      <div class="lookbars">
        {look !== "pictures" && <SliceFields shape={shape} index={place.index} error={problem} />}
        <AgainstBar facts={facts} state={state} />
        {layout && (look === "heat" || look === "table") && layout.rows > 0 && (
          <>
            <Jump asking={asking} layout={layout} shape={shape} bad={bad} />
            <Fold layout={layout} fold={state.fold} />
          </>
        )}
        {look === "heat" && (
          <>
            <Choice
              say={t("scale")}
              of={["linear", "log"]}
              value={state.scale}
              onChoose={(scale) => change({ scale })}
            />
            <label class="field" title={t("clip_tip")}>
              <input
                type="checkbox"
                checked={state.clip}
                onChange={(e) => change({ clip: e.currentTarget.checked })}
              />
              {t("clip")}
            </label>
          </>
        )}
        {(look === "table" || look === "statistics") && <NumberFormat asking={asking} />}
      </div>
      {problem && <p class="problem">{problem}</p>}
      {look === "pictures" && facts.pictures ? (
        <Pictures asking={asking} kind={facts.pictures} live={live} />
      ) : !layout ? (
        !problem && <Waiting answer={answer} />
      ) : !layout.rows || !layout.columns ? (
        <p class="empty">{t("no_elements")}</p>
      ) : look === "heat" ? (
        <Heat asking={asking} layout={layout} shape={shape} live={live} />
      ) : look === "table" ? (
        <Table key={asking.askShown("")} asking={asking} layout={layout} shape={shape} />
      ) : look === "histogram" ? (
        <Histogram asking={asking} live={live} />
      ) : (
        <Statistics asking={asking} layout={layout} live={live} />
      )}
    </>
  );
}

function Fold({ layout, fold }: { layout: Layout; fold: number }) {
  const t = useTensorTexts();
  const most = layout.shape.length;
  if (most < 2) return null;
  return (
    <label class="field" title={t("rows_columns", count(layout.rows), count(layout.columns))}>
      {t("fold")}
      <select
        aria-label={t("fold")}
        value={Math.min(fold, most)}
        onChange={(event) => change({ fold: Number(event.currentTarget.value), window: "" })}
      >
        <option value={0}>{t("fold_auto")}</option>
        {Array.from({ length: most }, (_, number) => (
          <option key={number} value={number + 1}>
            {t("fold_axes", number + 1)}
          </option>
        ))}
      </select>
    </label>
  );
}

function NumberFormat({ asking }: { asking: Asking }) {
  const t = useTensorTexts();
  const { state } = asking;
  return (
    <span class="field">
      <Choice
        say={t("notation")}
        of={["auto", "fixed", "science"]}
        value={state.notation}
        onChoose={(notation) => change({ notation })}
      />
      <label class="field">
        {t("digits")}
        <input
          class="num digits"
          type="number"
          min={0}
          max={10}
          aria-label={t("digits")}
          value={state.digits}
          onInput={(event) => {
            const digits = Number(event.currentTarget.value);
            if (Number.isInteger(digits) && digits >= 0 && digits <= 10) change({ digits });
          }}
        />
      </label>
    </span>
  );
}

/** Nobody has the elements: why, and how to get them. */
function NotHeld({ facts }: { facts: ValueFacts }) {
  const t = useTensorTexts();
  const { place, run } = useLooking();
  const [told, setTold] = useState("");
  const keep = async (): Promise<void> => {
    const live = await request<LiveState>("GET", `${runPath(place.run)}/live`);
    const nodes = [...new Set([...(live.ranks[0]?.kept ?? []), facts.name])];
    await request("POST", `${runPath(place.run)}/keep`, { nodes });
    setTold(t("kept_soon"));
    revision.set(revision.get() + 1);
  };
  return (
    <p class="notheld">
      {facts.why.charAt(0).toUpperCase() + facts.why.slice(1)}.{" "}
      {run?.live && !told && (
        <button onClick={() => void keep().catch((error: Error) => setTold(error.message))}>
          {t("keep")}
        </button>
      )}
      {told}
    </p>
  );
}
