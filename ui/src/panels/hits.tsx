// Hits in the order of execution, with what was asked for and what was found.
import { runPath, useAnswer } from "../api/client";
import type { HitGroups, HitHistory, HitLine, Hits } from "../api/types";
import type { WatchpointLine } from "../api/watch";
import { count, short, shownPlace } from "../format";
import { CopyMenu } from "../parts/copy";
import { Empty } from "../parts/empty";
import { Name } from "../parts/name";
import { seen, usePaged } from "../parts/paged";
import { VirtualList } from "../parts/virtual";
import { hitsCode } from "../python";
import { aboutRank, useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { useTexts } from "../texts";
import { GraphChoice } from "./graph_choice";
import { GROUP_ROW, GroupItem } from "./hit_groups";
import { askedWords, ViewButton } from "./hit_parts";
import { NoteList } from "./notes";

const ROW = 56;

export function HitList() {
  const { place, run, verdict } = useLooking();
  const none = verdict?.hits === 0;
  return (
    <>
      {(!none || (run?.ranks.length ?? 0) > 1) && <Filters />}
      {none ? <NoHits /> : place.flat ? <Each /> : <Groups />}
      <NoteList />
    </>
  );
}

function NoHits() {
  const { run } = useLooking();
  return run?.lacks.hits ? <p class="empty">{run.lacks.hits}</p> : <Empty say="hits_empty" />;
}

type Filter = Record<string, string | number | null>;

function useFilters(): Filter {
  const { place, step } = useLooking();
  return {
    watchpoint: place.point || null,
    graph: place.graph || null,
    step: place.only ? (place.step ?? step) : null,
  };
}

function Filters() {
  const t = useTexts();
  const { place, run, strip } = useLooking();
  return (
    <div class="filters">
      <div class="pair">
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
        <GraphChoice />
        {run && run.ranks.length > 1 && (
          <select
            aria-label={t("rank")}
            value={place.rank}
            onChange={(e) => go({ rank: Number(e.currentTarget.value), node: null, file: "", line: 0 })}
          >
            {run.ranks.map((rank) => (
              <option key={rank.rank} value={rank.rank}>
                {t("rank")} {rank.rank}
              </option>
            ))}
          </select>
        )}
      </div>
      <div class="pair">
        <button
          class={place.only ? "chip on" : "chip"}
          aria-pressed={place.only}
          onClick={() => go({ only: !place.only }, true)}
        >
          {t("this_step")}
        </button>
        <button
          class={place.flat ? "chip" : "chip on"}
          aria-pressed={!place.flat}
          title={t("hits_grouped_tip")}
          onClick={() => go({ flat: !place.flat }, true)}
        >
          {t("hits_grouped")}
        </button>
      </div>
    </div>
  );
}

function Head({ say, json }: { say: string; json: () => unknown }) {
  const { run } = useLooking();
  return (
    <div class="listhead">
      <span class="faint">{say}</span>
      <span class="grow" />
      <CopyMenu json={json} python={() => hitsCode(run?.path ?? "last")} />
    </div>
  );
}

/** Hits of the same kind together. */
function Groups() {
  const t = useTexts();
  const { place } = useLooking();
  const filters = useFilters();
  const list = usePaged<HitGroups, HitHistory>(
    aboutRank(place, "hits/groups", filters),
    (first, size) => aboutRank(place, "hits/groups", { ...filters, first: first || null, count: size }),
    (answer) => answer.groups,
  );
  const said = list.latest && t("hits_groups", count(list.latest.hits), count(list.latest.total));
  return (
    <>
      <Head say={said ?? t("loading")} json={() => seen(list)} />
      <VirtualList
        count={list.total ?? 0}
        height={GROUP_ROW}
        onRange={list.see}
        role="list"
        label={t("hits")}
        row={(index) => <GroupItem key={index} group={list.at(index)} />}
      />
    </>
  );
}

/** Each hit, in the order of execution. */
function Each() {
  const t = useTexts();
  const { place, run } = useLooking();
  const filters = useFilters();
  const list = usePaged<Hits, HitLine>(
    aboutRank(place, "hits", filters),
    (first, size) => aboutRank(place, "hits", { ...filters, first: first || null, count: size }),
    (answer) => answer.hits,
  );
  const points = useAnswer<WatchpointLine[]>(run?.live ? `${runPath(place.run)}/watchpoints` : null);
  return (
    <>
      <Head
        say={list.total === undefined ? t("loading") : t("hits_total", count(list.total))}
        json={() => seen(list)}
      />
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
  const found = Object.entries(hit.actual).map(([name, number]) => `${name} ${short(number)}`);
  const numbers = [
    askedWords(hit.params, t),
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
        {hit.node !== null && (
          <ViewButton node={hit.node} value={`${hit.io ?? "output"}:${hit.slot}`} step={hit.step} />
        )}
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
