// The last batch: its tensors, and the first of their values where they were kept.
import type { EndedRank } from "../api/types";
import { kind, short } from "../format";
import { useRecordingTexts } from "./texts";

export function BatchPanel({ rank }: { rank: EndedRank }) {
  const r = useRecordingTexts();
  return (
    <section class="panel" data-panel="batch">
      <h3>{rank.batch_step === null ? r("batch") : r("batch_of", rank.batch_step)}</h3>
      {rank.batch.length === 0 ? (
        <p class="faint">{r("batch_empty")}</p>
      ) : (
        <table class="table">
          <thead>
            <tr>
              <th>{r("tensor")}</th>
              <th>{r("shape")}</th>
              <th>{r("values")}</th>
              <th>{r("digest")}</th>
            </tr>
          </thead>
          <tbody>
            {rank.batch.map((tensor, index) => (
              <tr key={index}>
                <td class="name">{tensor.name}</td>
                <td class="num">{kind(tensor.dtype, tensor.shape)}</td>
                <td class="num batchvalues">{tensor.values.map(short).join("  ")}</td>
                <td class="num faint">{tensor.digest}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
