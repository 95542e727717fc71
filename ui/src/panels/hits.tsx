// Hits in the order of execution, with what was asked for and what was found.
import { useState } from "preact/hooks";
import { runPath, useAnswer } from "../api/client";
import type { HitLine, Hits } from "../api/types";
import type { WatchpointLine } from "../api/watch";
import { count, short, shownPlace } from "../format";
import { CopyMenu } from "../parts/copy";
import { Empty } from "../parts/empty";
import { Name } from "../parts/name";
import { usePaged } from "../parts/paged";
import { VirtualList } from "../parts/virtual";
import { hitsCode } from "../python";
import { aboutRank, useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { openValue } from "../tensor/state";
import { useTexts } from "../texts";

const ROW = 56;

export function HitList() {
  const t = useTexts();
  const { place, run, strip, step } = useLooking();
  const [onlyStep, setOnlyStep] = useState(false);
  const filters = {
    watchpoint: place.point || null,
    graph: place.graph || null,
    step: onlyStep ? (place.step ?? step) : null,
  };
  const list = usePaged<Hits, HitLine>(
    aboutRank(place, "hits", filters),
    (first, size) => aboutRank(place, "hits", { ...filters, first: first || null, count: size }),
    (answer) => answer.hits,
  );
  const points = useAnswer<WatchpointLine[]>(run?.live ? `${runPath(place.run)}/watchpoints` : null);
  const isFiltered = onlyStep || place.point !== 0 || place.graph !== "";
  if (list.total === 0 && !isFiltered)
    return run?.lacks.hits ? <p class="empty">{run.lacks.hits}</p> : <Empty say="hits_empty" />;
  return (
    <>
      <div class="filters pair">
        <select
          aria-label={t("any_watchpoint")}
          value={place.point}
          onChange={(e) => go({ point: Number(e.currentTarget.value) }, true)}
        >
          <option value={0}>{t("any_watchpoint")}</option>
          {strip?.lanes.map((lane) => (
            <option key={lane.watchpoint} value={lane.watchpoint}>
              {lane.label}
            </option>
          ))}
        </select>
        <select
          aria-label={t("any_graph")}
          value={place.graph}
          onChange={(e) => go({ graph: e.currentTarget.value }, true)}
        >
          <option value="">{t("any_graph")}</option>
          <option value="0">{t("graph_0")}</option>
          <option value="1">{t("graph_1")}</option>
        </select>
        <button
          class={onlyStep ? "chip on" : "chip"}
          aria-pressed={onlyStep}
          onClick={() => setOnlyStep(!onlyStep)}
        >
          {t("this_step")}
        </button>
      </div>
      <div class="listhead">
        <span class="faint">
          {list.total === undefined ? t("loading") : t("hits_total", count(list.total))}
        </span>
        <span class="grow" />
        <CopyMenu
          json={() => Array.from({ length: list.total ?? 0 }, (_, index) => list.at(index)).filter(Boolean)}
          python={() => hitsCode(run?.path ?? "last")}
        />
      </div>
      <VirtualList
        count={list.total ?? 0}
        height={ROW}
        onRange={list.see}
        role="list"
        label={t("hits")}
        row={(index) => {
          const hit = list.at(index);
          return <HitItem key={index} hit={hit} outdated={isOutdated(hit, points.data)} />;
        }}
      />
    </>
  );
}

/** Whether the watchpoint that found this is gone, or asks for something else by now. */
function isOutdated(hit: HitLine | undefined, points: WatchpointLine[] | undefined): boolean {
  if (!hit || !points) return false;
  const point = points.find((each) => each.id === hit.watchpoint);
  if (!point) return true;
  const asked = Object.entries(hit.params).every(([name, value]) => point.params?.[name] === value);
  return !asked || (hit.condition !== "EX" && point.condition !== hit.condition);
}

function HitItem({ hit, outdated }: { hit: HitLine | undefined; outdated: boolean }) {
  const t = useTexts();
  const { place } = useLooking();
  if (!hit) return <div class="item" style={{ height: `${ROW}px` }} />;
  const chosen = hit.node !== null && hit.node === place.node && hit.step === place.step;
  const open = (): void =>
    hit.node === null ? go({ step: hit.step }) : select(hit.node, { step: hit.step });
  const asked = Object.entries(hit.params).map(([name, found]) => `${name} ${short(found)}`);
  const found = Object.entries(hit.actual).map(([name, number]) => `${name} ${short(number)}`);
  const numbers = [
    asked.length ? `${t("threshold")} ${asked.join(", ")}` : "",
    found.length ? `${t("actual")} ${found.join(", ")}` : "",
  ].filter(Boolean);
  return (
    <div
      class={chosen ? "item hititem chosen" : "item hititem"}
      role="listitem"
      data-row
      style={{ height: `${ROW}px` }}
      onClick={open}
      title={[hit.message, ...numbers].join("\n")}
    >
      <div class="itemline">
        <span class="condition">{hit.label}</span>
        <span class="num">
          {t("step")} {hit.step}
        </span>
        <span class="grow" />
        {outdated && (
          <span class="chip" title={t("hit_outdated_tip")}>
            {t("outdated")}
          </span>
        )}
        <span class="where">{shownPlace(hit.where)}</span>
        {hit.node !== null && <ViewButton hit={hit} node={hit.node} />}
      </div>
      <div class="itemline clip">{hit.message}</div>
      <div class="itemline small">
        <Name of={hit.parameter || hit.name} tail={18} />
        <span class="grow" />
        <span class="faint clip">{numbers.join(" · ")}</span>
      </div>
    </div>
  );
}

function ViewButton({ hit, node }: { hit: HitLine; node: number }) {
  const t = useTexts();
  const view = (event: MouseEvent): void => {
    event.stopPropagation();
    openValue(node, `${hit.io ?? "output"}:${hit.slot}`, { step: hit.step });
  };
  return (
    <button class="chip" onClick={view}>
      {t("view_value")}
    </button>
  );
}
