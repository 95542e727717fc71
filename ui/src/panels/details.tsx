// The selected node, in full.
import { useRef } from "preact/hooks";
import { useAnswer } from "../api/client";
import { tell } from "../api/control";
import type { HitLine, NodeDetails } from "../api/types";
import { fileName, shownPlace } from "../format";
import { CopyMenu } from "../parts/copy";
import { Empty, Waiting } from "../parts/empty";
import { Name } from "../parts/name";
import { PhaseMark } from "../parts/phase";
import { nodeCode } from "../python";
import { aboutRank, aboutStep, useLooking } from "../state/looking";
import { watchNew } from "../state/draft";
import { go, select } from "../state/place";
import { stepBefore } from "../state/steps";
import { named, useTexts } from "../texts";
import { SideCard } from "./side_card";
import { Stack } from "./stack";

const FEW = 8;

export function Details() {
  const { place, moving } = useLooking();
  const answer = useAnswer<NodeDetails>(
    place.node === null ? null : aboutStep(place, `nodes/${place.node}`, { pass: place.pass || null }),
    moving,
  );
  const from = useRef("");
  const here = `${place.run} ${place.rank}`;
  if (!answer.stale) from.current = here;
  if (place.node === null) return <Empty say="details_empty" />;
  if (!answer.data || from.current !== here) return <Waiting answer={answer} />;
  return <NodePanel node={answer.data} stale={answer.stale} />;
}

/** The same node in the recorded step before, if that is to be compared; null where it did not run then. */
function useBefore(step: number | null): NodeDetails | null | undefined {
  const { place } = useLooking();
  const wanted = place.before && place.node !== null && step !== null;
  const answer = useAnswer<NodeDetails>(
    wanted ? aboutRank(place, `nodes/${place.node}`, { pass: place.pass || null, step }) : null,
    false,
  );
  if (!wanted || answer.stale || answer.data?.id !== place.node) return undefined;
  const ran = answer.data.step === step && answer.data.outputs.some((side) => side.numbers);
  return ran ? answer.data : null;
}

function NodePanel({ node, stale }: { node: NodeDetails; stale: boolean }) {
  const t = useTexts();
  const { place, run, strip } = useLooking();
  const earlier = stepBefore(strip, node.step);
  const before = useBefore(earlier);
  const where = node.stack.find((frame) => frame.user);
  return (
    <div class={stale ? "details stale" : "details"}>
      <header>
        <PhaseMark of={node.phase} />
        <h2 title={node.name}>
          <Name of={node.name.slice(node.scope ? node.scope.length + 1 : 0)} tail={8} />
        </h2>
        <span class="grow" />
        <CopyMenu json={() => node} python={() => nodeCode(run?.path ?? "last", node.name, node.step)} />
      </header>
      <div class="facts">
        <button class="link" title={node.scope} onClick={() => go({ view: "graph", scope: node.scope })}>
          <Name of={node.scope || t("root")} tail={22} />
        </button>
        <span class="faint">{node.op}</span>
        {where && (
          <button
            class="link where"
            title={`${where.file}:${where.line}`}
            onClick={() => go({ view: "source", file: where.file, line: where.line })}
          >
            {fileName(where.file)}:{where.line}
          </button>
        )}
        {node.step !== null && <span class="faint">{t("numbers_of", node.step)}</span>}
      </div>
      {where?.code && <code class="code">{where.code}</code>}
      <div class="nodebuttons">
        <button onClick={() => watchNew({ node: node.name })}>{t("watch_this")}</button>
        {earlier !== null && (
          <button
            class={place.before ? "on" : ""}
            aria-pressed={place.before}
            onClick={() => go({ before: !place.before }, true)}
          >
            {t("compare_with", earlier)}
          </button>
        )}
        {run?.live && (
          <button onClick={() => void tell(place.run, "to", { node: node.name })}>{t("run_to")}</button>
        )}
      </div>
      {before === null && <p class="faint">{t("compare_none", earlier!)}</p>}
      {node.passes > 1 && <Passes count={node.passes} at={node.pass_number} />}
      {node.hits.length > 0 && <NodeHits hits={node.hits} />}
      {node.inputs.map((side) => (
        <SideCard key={`i${side.slot}`} node={node} side={side} before={before ?? undefined} />
      ))}
      {node.outputs.map((side) => (
        <SideCard key={`o${side.slot}`} node={node} side={side} before={before ?? undefined} />
      ))}
      <Links node={node} />
      <Arguments node={node} />
      <Stack node={node} />
    </div>
  );
}

function Passes({ count, at }: { count: number; at: number }) {
  const t = useTexts();
  return (
    <label class="field">
      {t("pass")}
      <select value={at} onChange={(e) => go({ pass: Number(e.currentTarget.value) })}>
        {Array.from({ length: count }, (_, number) => (
          <option key={number} value={number}>
            {number}
          </option>
        ))}
      </select>
      / {count}
    </label>
  );
}

function NodeHits({ hits }: { hits: HitLine[] }) {
  const t = useTexts();
  return (
    <section>
      {hits.slice(0, FEW).map((hit) => (
        <button
          key={`${hit.step}${hit.condition}${hit.slot}`}
          class="hitline"
          onClick={() => go({ step: hit.step })}
        >
          <span class="condition">{hit.label}</span> {t("step")} {hit.step}: {hit.message}
        </button>
      ))}
      {hits.length > FEW && <p class="faint">{t("more", hits.length - FEW)}</p>}
    </section>
  );
}

function Links({ node }: { node: NodeDetails }) {
  const t = useTexts();
  const readers = [...new Map(node.consumers.map((one) => [one.node, one])).values()];
  return (
    <section class="links">
      {node.forward !== null && (
        <p>
          <span class="faint">{t("gradient_here")}</span>{" "}
          <button class="link" onClick={() => select(node.forward!)}>
            #{node.forward}
          </button>
        </p>
      )}
      {node.backward.length > 0 && (
        <p>
          <span class="faint">{t("gradients_of_it")}</span>{" "}
          {node.backward.slice(0, FEW).map((id) => (
            <button key={id} class="link" onClick={() => select(id)}>
              #{id}
            </button>
          ))}
        </p>
      )}
      {readers.length > 0 && (
        <div>
          <span class="faint">{t("feeds")}</span>
          {readers.slice(0, FEW).map((one) => (
            <button key={one.node} class="link line" title={one.name} onClick={() => select(one.node)}>
              <Name of={one.name} tail={24} />
            </button>
          ))}
          {readers.length > FEW && <span class="faint">{t("more", readers.length - FEW)}</span>}
        </div>
      )}
    </section>
  );
}

function Arguments({ node }: { node: NodeDetails }) {
  const t = useTexts();
  const found = Object.entries(node.arguments);
  if (node.parameter) found.unshift([t("parameter"), node.parameter]);
  if (node.gradient_of) found.unshift([t("gradient_here"), node.gradient_of]);
  if (node.phase) found.push([named("phase", node.phase), shownPlace(node.module_class)]);
  const shown = found.filter(([, words]) => words);
  if (!shown.length) return null;
  return (
    <section>
      <h3>{t("arguments")}</h3>
      <dl class="arguments">
        {shown.map(([name, words]) => [
          <dt key={name}>{name}</dt>,
          <dd key={`${name}=`} title={words}>
            {words.slice(0, 300)}
          </dd>,
        ])}
      </dl>
    </section>
  );
}
