// The list of nodes, with filters; the server finds them and gives them in pages.
import { useEffect, useState } from "preact/hooks";
import type { NodeLine, NodeList } from "../api/types";
import { count, shownPlace } from "../format";
import { CopyMenu } from "../parts/copy";
import { Empty } from "../parts/empty";
import { Name } from "../parts/name";
import { BadCount, Range } from "../parts/number";
import { seen, usePaged } from "../parts/paged";
import { PhaseMark } from "../parts/phase";
import { VirtualList } from "../parts/virtual";
import { nodesCode } from "../python";
import { aboutStep, useLooking } from "../state/looking";
import { go, here, select } from "../state/place";
import { named, useTexts } from "../texts";
import { GraphChoice } from "./graph_choice";

const ROW = 38;
const PHASES = ["forward", "backward", "optimizer", "eval", "data", "setup"];
const KINDS = ["weight", "gradient", "activation"];

export function NodeListPanel() {
  const t = useTexts();
  const { place, run, moving } = useLooking();
  const filters = { text: place.text, phase: place.phase, kind: place.kind, op_type: place.op, graph: place.graph };
  const key = aboutStep(place, "nodes", filters);
  const list = usePaged<NodeList, NodeLine>(
    key,
    (first, size) => aboutStep(place, "nodes", { ...filters, first: first || null, count: size }),
    (answer) => answer.nodes,
    moving,
  );
  return (
    <>
      <div class="filters">
        <Typed id="filter" say={t("filter")} value={place.text} onChange={(text) => go({ text }, true)} />
        <div class="fourfilters">
          <select
            aria-label={t("any_phase")}
            value={place.phase}
            onChange={(e) => go({ phase: e.currentTarget.value }, true)}
          >
            <option value="">{t("any_phase")}</option>
            {PHASES.map((phase) => (
              <option key={phase} value={phase}>
                {named("phase", phase)}
              </option>
            ))}
          </select>
          <select
            aria-label={t("any_kind")}
            value={place.kind}
            onChange={(e) => go({ kind: e.currentTarget.value }, true)}
          >
            <option value="">{t("any_kind")}</option>
            {KINDS.map((kind) => (
              <option key={kind} value={kind}>
                {named("kind", kind)}
              </option>
            ))}
          </select>
          <GraphChoice />
          <Typed id="op" say={t("any_op")} value={place.op} onChange={(op) => go({ op }, true)} />
        </div>
      </div>
      <div class="listhead">
        <span class="faint">
          {list.total === undefined ? t("loading") : t("of_total", count(list.total))}
        </span>
        <span class="grow" />
        <CopyMenu
          json={() => ({ ...filters, nodes: seen(list) })}
          python={() => nodesCode(run?.path ?? "last", here().text)}
        />
      </div>
      {list.total === 0 && <Empty say="nodes_empty" />}
      <VirtualList
        count={list.total ?? 0}
        height={ROW}
        onRange={list.see}
        role="list"
        label={t("nodes")}
        row={(index) => (
          <NodeItem key={index} node={list.at(index)} chosen={list.at(index)?.id === place.node} />
        )}
      />
    </>
  );
}

export function NodeItem({ node, chosen }: { node: NodeLine | undefined; chosen: boolean }) {
  if (!node) return <div class="item" style={{ height: `${ROW}px` }} />;
  return (
    <div
      class={chosen ? "item chosen" : "item"}
      role="listitem"
      data-row
      data-node={node.id}
      style={{ height: `${ROW}px` }}
      onClick={() => select(node.id)}
    >
      <div class="itemline">
        <PhaseMark of={node.phase} />
        <Name of={node.name} tail={20} />
        <span class="grow" />
        {node.hits > 0 && <span class="hit" />}
        <BadCount nan={node.nan} inf={node.inf} />
      </div>
      <div class="itemline small">
        <span class="where">{shownPlace(node.where)}</span>
        {(node.parameter || node.gradient_of) && (
          <Name of={node.parameter || `∂ ${node.gradient_of}`} tail={10} />
        )}
        <span class="grow" />
        <Range low={node.min} high={node.max} />
      </div>
    </div>
  );
}

/** A field that tells what was typed after a short rest. */
export function Typed({
  id,
  say,
  value,
  onChange,
}: {
  id: string;
  say: string;
  value: string;
  onChange: (text: string) => void;
}) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => onChange(typed.trim()), 200);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <input
      id={id}
      type="search"
      placeholder={say}
      aria-label={say}
      value={typed}
      spellcheck={false}
      maxLength={1000}
      onInput={(e) => setTyped(e.currentTarget.value)}
    />
  );
}
