// The model as a tree of scopes; a scope is asked for when it is opened.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, revision, useAnswer } from "../api/client";
import type { Branch, HeatMap, NodeDetails, NodeLine, ScopeLine } from "../api/types";
import { CopyMenu } from "../parts/copy";
import { Empty, Waiting } from "../parts/empty";
import { Name } from "../parts/name";
import { BadCount, Figure } from "../parts/number";
import { Spark } from "../parts/spark";
import { PhaseMark } from "../parts/phase";
import { VirtualList } from "../parts/virtual";
import { scopesCode } from "../python";
import { aboutRank, aboutStep, useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { lastForSketches } from "../state/steps";
import { useStore } from "../state/store";
import { named, useTexts } from "../texts";

const ROW = 24;
/** A scope, a node, or the nodes of a scope that ran before training or loaded data. */
type Row = { depth: number; scope?: ScopeLine; node?: NodeLine; aside?: Aside; open?: boolean };
type Aside = { key: string; phase: string; count: number };
type Trend = { values: HeatMap["values"][number]; bad: number[] };
const TREND_STEPS = 20;
const ASIDE = ["setup", "data"];
const FEW = 3;

/** The scopes around one, the outermost first, and itself. */
function around(scope: string): string[] {
  const parts = scope.split("/");
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}

export function ModelTree() {
  const t = useTexts();
  const { place, run, moving, step } = useLooking();
  const root = useAnswer<Branch>(aboutStep(place, "tree"), moving);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const branches = useBranches(open);
  const trends = useTrends(open);
  const details = useAnswer<NodeDetails>(
    place.node === null ? null : aboutStep(place, `nodes/${place.node}`, { pass: place.pass || null }),
    moving,
  );
  const chosen = details.data?.id === place.node ? details.data : undefined;
  useOpening(root.data, chosen, setOpen);
  const rows = useMemo(() => flatten(root.data, branches, open), [root.data, branches, open]);
  const at = rows.findIndex((row) => row.node && row.node.id === place.node);
  const show = useShown(at, place.node);
  if (!root.data) return <Waiting answer={root} />;
  if (!rows.length) return <Empty say="tree_empty" />;
  const toggle = (scope: string): void => {
    const next = new Set(open);
    if (!next.delete(scope)) next.add(scope);
    setOpen(next);
  };
  return (
    <>
      <div class="listhead">
        <span class="faint">{step === null ? "" : t("numbers_of", step)}</span>
        <span class="grow" />
        <span class="faint">{t("stat_max")}</span>
        <CopyMenu json={() => root.data} python={() => scopesCode(run?.path ?? "last", place.rank, step)} />
      </div>
      <VirtualList
        count={rows.length}
        height={ROW}
        show={show}
        role="tree"
        label={t("model")}
        row={(index) => {
          const row = rows[index]!;
          if (row.aside) return <AsideRow key={row.aside.key} row={row} onToggle={toggle} />;
          return row.scope ? (
            <ScopeRow
              key={`s${row.scope.name}`}
              row={row}
              chosen={place.scope === row.scope.name}
              spark={trends.get(row.scope.name)}
              onToggle={toggle}
            />
          ) : (
            <NodeRow key={`n${row.node!.id}`} row={row} chosen={row.node!.id === place.node} />
          );
        }}
      />
    </>
  );
}

interface ScopeRowProps {
  row: Row;
  chosen: boolean;
  spark: Trend | undefined;
  onToggle: (scope: string) => void;
}

function ScopeRow({ row, chosen, spark, onToggle }: ScopeRowProps) {
  const scope = row.scope!;
  const [attribute, kind] = splitLabel(scope.label);
  return (
    <div
      class={`treerow scope ${chosen ? "chosen" : ""}`}
      role="treeitem"
      aria-expanded={row.open}
      data-row
      data-scope={scope.name}
      title={`${scope.name}\n${scope.nodes} operators, ${scope.parameters} parameters`}
      style={{ paddingLeft: `${row.depth * 13 + 4}px`, height: `${ROW}px` }}
      onClick={() => (onToggle(scope.name), go({ scope: scope.name }))}
    >
      <span class="twist">{row.open ? "▾" : "▸"}</span>
      <span class="treename">
        <b>{attribute}</b> <span class="faint">{kind}</span>
      </span>
      <span class="grow" />
      {spark && <Spark of={spark.values} bad={spark.bad} />}
      {scope.hits > 0 && <span class="hit" title={`${scope.hits}`} />}
      <Largest low={scope.min} high={scope.max} nan={scope.nan} inf={scope.inf} />
    </div>
  );
}

function AsideRow({ row, onToggle }: { row: Row; onToggle: (key: string) => void }) {
  const { key, phase, count } = row.aside!;
  return (
    <div
      class="treerow"
      role="treeitem"
      aria-expanded={row.open}
      style={{ paddingLeft: `${row.depth * 13 + 4}px`, height: `${ROW}px` }}
      onClick={() => onToggle(key)}
    >
      <span class="twist">{row.open ? "▾" : "▸"}</span>
      <span class="faint">{named("phase", phase)}</span>
      <span class="grow" />
      <span class="faint num small">{count}</span>
    </div>
  );
}

function NodeRow({ row, chosen }: { row: Row; chosen: boolean }) {
  const node = row.node!;
  return (
    <div
      class={`treerow node ${chosen ? "chosen" : ""}`}
      role="treeitem"
      aria-selected={chosen}
      data-row
      data-node={node.id}
      title={node.name}
      style={{ paddingLeft: `${row.depth * 13 + 4}px`, height: `${ROW}px` }}
      onClick={() => select(node.id)}
    >
      <PhaseMark of={node.phase} />
      <Name of={node.name.slice(node.scope ? node.scope.length + 1 : 0)} tail={6} />
      <span class="grow" />
      {node.hits > 0 && <span class="hit" />}
      <Largest low={node.min} high={node.max} nan={node.nan} inf={node.inf} />
    </div>
  );
}

function Largest({
  low,
  high,
  nan,
  inf,
}: Pick<ScopeLine, "nan" | "inf"> & { low: ScopeLine["min"]; high: ScopeLine["max"] }) {
  if (Number(nan) || Number(inf)) return <BadCount nan={nan} inf={inf} />;
  if (low === null || high === null) return <span class="num faint">–</span>;
  const size = Math.max(Math.abs(Number(low)), Math.abs(Number(high)));
  return <Figure of={size} />;
}

/** `conv1-Conv2d` → its attribute and its class. */
function splitLabel(label: string): [string, string] {
  const at = label.indexOf("-");
  return at < 0 ? [label, ""] : [label.slice(0, at), label.slice(at + 1)];
}

function flatten(
  root: Branch | undefined,
  branches: ReadonlyMap<string, Branch>,
  open: ReadonlySet<string>,
): Row[] {
  const rows: Row[] = [];
  const add = (branch: Branch, depth: number): void => {
    for (const scope of branch.scopes) {
      const isOpen = open.has(scope.name);
      rows.push({ depth, scope, open: isOpen });
      const inner = isOpen ? branches.get(scope.name) : undefined;
      if (inner) add(inner, depth + 1);
    }
    for (const node of branch.nodes) if (!ASIDE.includes(node.phase)) rows.push({ depth, node });
    for (const phase of ASIDE) {
      const nodes = branch.nodes.filter((node) => node.phase === phase);
      const key = `${branch.scope}#${phase}`;
      const isOpen = nodes.length <= FEW || open.has(key);
      if (nodes.length > FEW) rows.push({ depth, aside: { key, phase, count: nodes.length }, open: isOpen });
      if (isOpen)
        for (const node of nodes) rows.push({ depth: nodes.length > FEW ? depth + 1 : depth, node });
    }
  };
  if (root) add(root, 0);
  return rows;
}

/** What the scopes that are shown computed over the steps, each asked for with those beside it. */
function useTrends(open: ReadonlySet<string>): ReadonlyMap<string, Trend> {
  const { place, run, strip } = useLooking();
  const last = lastForSketches(run, place.rank, strip);
  const wanted = (strip?.recorded.length ?? 0) > 1;
  const [found, setFound] = useState<ReadonlyMap<string, Trend>>(new Map());
  useEffect(() => setFound(new Map()), [place.run, place.rank]);
  useEffect(() => {
    if (!wanted) return;
    let current = true;
    const add = (map: HeatMap): void => {
      if (!current) return;
      const more = map.scopes.map((name, index): [string, Trend] => [
        name,
        { values: map.values[index]!, bad: map.bad[index]! },
      ]);
      setFound((old) => new Map([...old, ...more]));
    };
    for (const scope of ["", ...open].filter((key) => !key.includes("#"))) {
      const query = { stat: "max", scope, depth: 1, columns: TREND_STEPS, last };
      ask<HeatMap>(aboutRank(place, "heatmap", query)).then(add, () => undefined);
    }
    return () => void (current = false);
  }, [open, place.run, place.rank, last, wanted]);
  return found;
}

/** Answers for the open scopes; those before stay until newer ones have come. */
function useBranches(open: ReadonlySet<string>): ReadonlyMap<string, Branch> {
  const { place, moving } = useLooking();
  const now = useStore(revision);
  const [found, setFound] = useState<ReadonlyMap<string, Branch>>(new Map());
  useEffect(() => {
    let wanted = true;
    const questions = [...open]
      .filter((key) => !key.includes("#"))
      .map(async (scope): Promise<[string, Branch]> => [
        scope,
        await ask<Branch>(aboutStep(place, "tree", { scope }), moving ? now : 0),
      ]);
    void Promise.allSettled(questions).then((answers) => {
      if (!wanted) return;
      setFound(new Map(answers.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []))));
    });
    return () => void (wanted = false);
  }, [open, place.run, place.rank, place.step, moving ? now : 0]);
  return found;
}

/** Open what has no alternative, and what is around the selected node. */
function useOpening(
  root: Branch | undefined,
  node: NodeDetails | undefined,
  setOpen: (change: (old: ReadonlySet<string>) => ReadonlySet<string>) => void,
): void {
  const first = useRef(true);
  useEffect(() => {
    if (!root || !first.current) return;
    first.current = false;
    const top = root.scopes.map((one) => one.name);
    setOpen((old) => new Set([...old, ...top.slice(0, 1)]));
  }, [root]);
  useEffect(() => {
    if (!node) return;
    const aside = ASIDE.includes(node.phase) ? [`${node.scope}#${node.phase}`] : [];
    setOpen((old) => new Set([...old, ...around(node.scope), ...aside]));
  }, [node?.id]);
}

/** Bring a row into sight once, when it was selected elsewhere. */
function useShown(at: number, node: number | null): number | undefined {
  const done = useRef<number | null>(null);
  const shown = useRef<number | undefined>(undefined);
  if (at >= 0 && done.current !== node) {
    done.current = node;
    shown.current = at;
  }
  return shown.current;
}
