// A few numbers as a line as high as a word; what is not finite is red.
import { value, type Num } from "../format";

const WIDTH = 40;
const HEIGHT = 14;
const LEAST_SPAN = 1;

export function Spark({ of, bad }: { of: Num[]; bad: number[] }) {
  const numbers = of.map((one, index) => {
    const number = value(one);
    return bad[index] || number === null || !Number.isFinite(number) || number <= 0
      ? null
      : Math.log10(number);
  });
  const known = numbers.filter((one): one is number => one !== null);
  if (numbers.length < 2 || (!known.length && !bad.some(Boolean))) return null;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const span = Math.max(LEAST_SPAN, high - low);
  const middle = (low + high) / 2;
  const x = (index: number): number => (index / (numbers.length - 1)) * (WIDTH - 4) + 2;
  const y = (number: number): number => HEIGHT / 2 - ((number - middle) / span) * (HEIGHT - 4);
  const points = numbers.flatMap((one, index) =>
    one === null ? [] : [`${x(index).toFixed(1)},${y(one).toFixed(1)}`],
  );
  return (
    <svg class="spark" width={WIDTH} height={HEIGHT} aria-hidden="true">
      <polyline points={points.join(" ")} />
      {bad.map((one, index) =>
        one ? <rect key={index} x={x(index) - 1.5} y={1} width={3} height={HEIGHT - 2} /> : null,
      )}
    </svg>
  );
}
