// Watchpoints checked again on the step that is shown, and what they found; what is outdated is marked.
import { useState } from "preact/hooks";
import { request, runPath } from "../api/client";
import type { Recheck } from "../api/types";
import type { WatchpointLine } from "../api/watch";
import { count, short, shownPlace } from "../format";
import { Name } from "../parts/name";
import { useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { store, useStore } from "../state/store";
import { useTexts } from "../texts";

interface Done {
  run: string;
  step: number;
  /** The watchpoints that were checked, each as text. */
  points: Map<number, string>;
  found: Recheck;
}

const last = store<Done | null>(null);
const MOST = 200;

export interface Rechecking {
  busy: boolean;
  problem: string;
  done: Done | null;
  run: () => void;
  isOutdated: (point: WatchpointLine) => boolean;
  hitsOf: (id: number) => number | undefined;
}

export function useRecheck(): Rechecking {
  const { place, step } = useLooking();
  const kept = useStore(last);
  const done = kept?.run === place.run ? kept : null;
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const run = async (): Promise<void> => {
    setBusy(true);
    try {
      const path = runPath(place.run);
      const points = await request<WatchpointLine[]>("GET", `${path}/watchpoints`);
      const watch = { watchpoints: points };
      const found = await request<Recheck>("POST", `${path}/recheck`, { watch, step });
      const texts = points.map((point): [number, string] => [point.id, JSON.stringify(point)]);
      last.set({ run: place.run, step: found.step, points: new Map(texts), found });
      setProblem("");
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
  };
  const isOutdated = (point: WatchpointLine): boolean =>
    done !== null && done.points.get(point.id) !== JSON.stringify(point);
  return {
    busy,
    problem,
    done,
    run: () => void run(),
    isOutdated,
    hitsOf: (id) => done?.found.hits.filter((hit) => hit.watchpoint === id).length,
  };
}

export function RecheckPanel({ of, points }: { of: Rechecking; points: WatchpointLine[] }) {
  const t = useTexts();
  const { step } = useLooking();
  if (of.problem) {
    return (
      <p class="problem" role="alert">
        {of.problem}
      </p>
    );
  }
  if (!of.done) return null;
  const { found } = of.done;
  const removed = [...of.done.points.keys()].some((id) => !points.some((point) => point.id === id));
  const outdated = removed || points.some(of.isOutdated) || found.step !== step;
  return (
    <section class="rechecked" aria-label={t("recheck")}>
      <h3>
        {t("rechecked", found.step)}
        {outdated && (
          <span class="chip" title={t("outdated_tip")}>
            {t("outdated")}
          </span>
        )}
      </h3>
      <p class="faint">
        {t("recheck_found", count(found.hits.length), count(found.values))}
      </p>
      {found.hits.slice(0, MOST).map((hit, index) => (
        <RecheckHit key={index} hit={hit} step={found.step} />
      ))}
      {found.unchecked.map((each, index) => (
        <p key={index} class="faint small">
          {t("not_checked", String(each.condition ?? ""), String(each.count ?? ""), String(each.reason ?? ""))}
        </p>
      ))}
    </section>
  );
}

function RecheckHit({ hit, step }: { hit: Recheck["hits"][number]; step: number }) {
  const node = typeof hit.node === "number" ? hit.node : null;
  const actual = Object.entries((hit.actual ?? {}) as Record<string, number>);
  const open = (): void => (node === null ? go({ step }) : select(node, { step }));
  return (
    <div class="item hititem" role="listitem" data-row onClick={open} title={String(hit.message)}>
      <div class="itemline">
        <span class="condition">{String(hit.label ?? hit.condition)}</span>
        <span class="grow" />
        <span class="where">{shownPlace(String(hit.where ?? ""))}</span>
      </div>
      <div class="itemline small">
        <Name of={String(hit.parameter || hit.name || "")} tail={18} />
        <span class="grow" />
        <span class="faint clip">
          {actual.map(([name, number]) => `${name} ${short(number)}`).join(" · ")}
        </span>
      </div>
    </div>
  );
}
