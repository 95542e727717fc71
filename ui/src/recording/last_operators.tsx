// The last operators as a list, the latest on top.
import type { EndedRank, RecordedOperator } from "../api/types";
import { fileName, seconds } from "../format";
import { Name } from "../parts/name";
import { PhaseMark } from "../parts/phase";
import { chosen, goTo, useRecordingPlace } from "./place";
import { useRecordingTexts } from "./texts";

export function LastOperators({ rank }: { rank: EndedRank }) {
  const r = useRecordingTexts();
  const place = useRecordingPlace();
  const selected = chosen(place)?.sequence ?? rank.last_op?.sequence;
  return (
    <section class="panel" data-panel="operators">
      <h3>{r("last_list", rank.operators.length)}</h3>
      <ol class="lastlist scroll">
        {rank.operators.map((each) => (
          <li key={each.sequence} class={each.sequence === selected ? "on" : ""}>
            <PhaseMark of={each.phase} />
            <button
              class="link"
              disabled={!rank.has_ring}
              onClick={() => goTo({ op: `${rank.place}:${each.sequence}`, at: rank.place })}
            >
              <Name of={each.name} tail={22} />
            </button>
            <span class="grow" />
            {each.source && (
              <span class="where" title={`${each.source.file}:${each.source.line}`}>
                {fileName(each.source.file)}:{each.source.line}
              </span>
            )}
            <Became of={each} />
          </li>
        ))}
      </ol>
    </section>
  );
}

function Became({ of }: { of: RecordedOperator }) {
  const r = useRecordingTexts();
  if (of.state === "finished") return <span class="num took">{seconds(of.seconds)}</span>;
  return <span class={`took became ${of.state}`}>{of.state === "raised" ? r("raised") : r("in_flight")}</span>;
}
