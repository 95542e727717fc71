// A number as people read it; all digits on hover.
import { full, isBad, short, type Num } from "../format";

export function Figure({ of }: { of: Num }) {
  const bad = isBad(of);
  return (
    <span class={bad ? "num bad" : "num"} title={full(of)}>
      {short(of)}
    </span>
  );
}

/** From the least to the largest. */
export function Range({ low, high }: { low: Num; high: Num }) {
  if (low === null && high === null) return <span class="num faint">–</span>;
  if (low === high) return <Figure of={low} />;
  return (
    <span class="range">
      <Figure of={low} />
      <span class="faint">…</span>
      <Figure of={high} />
    </span>
  );
}

/** How much is not finite, if anything. */
export function BadCount({ nan, inf }: { nan: Num; inf: Num }) {
  if (!Number(nan) && !Number(inf)) return null;
  return (
    <span class="badcount" title={`${full(nan)} NaN, ${full(inf)} Inf`}>
      {Number(nan) ? "NaN" : "Inf"}
    </span>
  );
}
