// A name that is shortened in the middle when there is no room, and whole on hover.
const TAIL = 14;
const MOST = 400;

export function Name({ of, tail = TAIL }: { of: string; tail?: number }) {
  if (of.length <= tail + 4)
    return (
      <span class="name" title={of}>
        {of}
      </span>
    );
  const head = of.slice(0, -tail);
  return (
    <span class="name mid" title={of}>
      <span class="mid-head">{head.length > MOST ? `${head.slice(0, MOST)}…` : head}</span>
      <span class="mid-tail">{of.slice(-tail)}</span>
    </span>
  );
}
