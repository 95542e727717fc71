// The chosen operator: everything that was noted of it.
import type { ComponentChildren } from "preact";
import { useAnswer } from "../api/client";
import type { EndedRank, OperatorAt, RecordingFacts } from "../api/types";
import { bytes, count, kind, seconds } from "../format";
import { Waiting } from "../parts/empty";
import { PhaseMark } from "../parts/phase";
import { named } from "../texts";
import { SourceLine } from "./ending";
import { chosen, goTo, useRecordingPlace } from "./place";
import { useRecordingTexts } from "./texts";

export function operatorPath(id: string, at: number, sequence: number): string {
  return `/recordings/${encodeURIComponent(id)}/ranks/${at}/operators/${sequence}`;
}

export function OperatorPanel({ recording, rank }: { recording: RecordingFacts; rank: EndedRank }) {
  const r = useRecordingTexts();
  const place = useRecordingPlace();
  const last = rank.has_ring && rank.last_op ? { at: rank.place, sequence: rank.last_op.sequence } : null;
  const shown = chosen(place) ?? last;
  const answer = useAnswer<OperatorAt>(
    shown && operatorPath(recording.id, shown.at, shown.sequence),
    false,
  );
  return (
    <section class={answer.stale ? "panel operatorpanel stale" : "panel operatorpanel"} data-operator={answer.data?.sequence}>
      <header>
        <h3>{r("operator")}</h3>
        <span class="grow" />
        {answer.data && <Neighbours found={answer.data} />}
      </header>
      {!shown ? (
        <p class="faint">{r("operator_empty")}</p>
      ) : answer.data ? (
        <Facts found={answer.data} recording={recording} />
      ) : (
        <Waiting answer={answer} />
      )}
    </section>
  );
}

function Neighbours({ found }: { found: OperatorAt }) {
  const r = useRecordingTexts();
  const to = (sequence: number | null) => (
    sequence === null ? undefined : () => goTo({ op: `${found.place}:${sequence}` })
  );
  return (
    <>
      <button class="quiet" disabled={found.before === null} onClick={to(found.before)}>
        {r("before")}
      </button>
      <button class="quiet" disabled={found.after === null} onClick={to(found.after)}>
        {r("after")}
      </button>
    </>
  );
}

function Facts({ found, recording }: { found: OperatorAt; recording: RecordingFacts }) {
  const r = useRecordingTexts();
  const link =
    recording.run && found.node !== null
      ? `/run/${encodeURIComponent(recording.run)}?rank=${found.rank}&node=${found.node}&step=${found.step}`
      : "";
  return (
    <>
      <p class="opname">
        <PhaseMark of={found.phase} /> <span class="name">{found.name}</span>
      </p>
      {found.source && <SourceLine of={found.source} />}
      <dl class="opfacts">
        <Fact name={r("state")}>
          <span class={`became ${found.state}`}>
            {r(found.state === "flight" ? "state_flight" : found.state === "raised" ? "state_raised" : "state_finished")}
          </span>
          {found.inside && ` · ${r("inside", found.inside)}`}
        </Fact>
        <Fact name={r("took")}>{found.seconds === null ? "–" : seconds(found.seconds)}</Fact>
        <Fact name={r("scope")}>
          <span class="name">{found.scope}</span>
        </Fact>
        <Fact name={r("phase")}>
          {named("phase", found.phase)} · {r("in_step", found.step)} · {found.op}
        </Fact>
        {found.dtype && (
          <Fact name={r("first_input")}>
            {kind(found.dtype, null)} · {r("elements", count(found.numel), bytes(found.bytes))} · {found.device}{" "}
            <span class="faint">{found.address}</span>
          </Fact>
        )}
        <Fact name={r("thread")}>
          {found.thread}
          {found.device.startsWith("cuda") && ` · ${r("lane_stream", found.device, found.stream)}`}
        </Fact>
        {found.collective > 0 && (
          <Fact name={r("group")}>{r("group_number", found.collective, found.group || r("default_group"))}</Fact>
        )}
        {found.autograd && <Fact name={r("autograd")}>{found.autograd}</Fact>}
        {found.source && found.source.called_from.length > 0 && (
          <Fact name={r("called_from")}>
            {found.source.called_from.map((each) => (
              <div key={each} class="where">
                {each}
              </div>
            ))}
          </Fact>
        )}
      </dl>
      {link && (
        <p>
          <a class="chip" href={link}>
            {r("show_numbers")}
          </a>
        </p>
      )}
    </>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
