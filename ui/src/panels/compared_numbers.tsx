// The numbers of a value in two steps, beside each other.
import type { Numbers } from "../api/types";
import { count, full, isBad, short, type Num } from "../format";
import { go } from "../state/place";
import { useTexts, type TextName } from "../texts";

interface Props {
  of: Numbers;
  at: number | null;
  other: Numbers;
  then: number | null;
}

const STATISTICS: (keyof Numbers & TextName)[] = ["min", "max", "mean", "std", "mean_abs", "l2"];
const COUNTS: [keyof Numbers, string][] = [
  ["nan", "NaN"],
  ["posinf", "+Inf"],
  ["neginf", "−Inf"],
];

export function ComparedNumbers({ of, at, other, then }: Props) {
  const t = useTexts();
  const counted = COUNTS.filter(([key]) => Number(of[key]) > 0 || Number(other[key]) > 0);
  return (
    <table class="compared">
      <thead>
        <tr>
          <td />
          <th scope="col">
            <button class="link" title={t("go_to_step")} onClick={() => go({ step: then })}>
              {t("step")} {then}
            </button>
          </th>
          <th scope="col">
            {t("step")} {at}
          </th>
        </tr>
      </thead>
      <tbody>
        {counted.map(([key, name]) => (
          <tr key={key}>
            <th scope="row">{name}</th>
            <Cell of={other[key]} shown={count(other[key])} bad={Number(other[key]) > 0} />
            <Cell of={of[key]} shown={count(of[key])} bad={Number(of[key]) > 0} />
          </tr>
        ))}
        {STATISTICS.map((key) => (
          <tr key={key}>
            <th scope="row">{t(key)}</th>
            <Cell of={other[key]} shown={short(other[key])} bad={isBad(other[key])} />
            <Cell of={of[key]} shown={short(of[key])} bad={isBad(of[key])} />
          </tr>
        ))}
        <tr>
          <th scope="row">{t("zeros")}</th>
          <Cell of={other.zero} shown={count(other.zero)} bad={false} />
          <Cell of={of.zero} shown={count(of.zero)} bad={false} />
        </tr>
      </tbody>
    </table>
  );
}

function Cell({ of, shown, bad }: { of: Num; shown: string; bad: boolean }) {
  return (
    <td class={bad ? "num bad" : "num"} title={full(of)}>
      {shown}
    </td>
  );
}
