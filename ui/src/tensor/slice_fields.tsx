// One field for each dimension: a number, or a range of it.
import { useEffect, useState } from "preact/hooks";
import { change } from "./state";
import { useTensorTexts } from "./texts";

interface Props {
  shape: number[];
  index: string;
  error: string;
}

export function SliceFields({ shape, index, error }: Props) {
  const t = useTensorTexts();
  const words = index ? index.split(",").map((word) => word.trim()) : [];
  const put = (axis: number, word: string): void => {
    const next = shape.map((_, place) => (place === axis ? word.trim() : words[place]) || ":");
    while (next.length && next[next.length - 1] === ":") next.pop();
    change({ window: "", first: 0 }, false, { index: next.join(",") });
  };
  if (!shape.length) return null;
  return (
    <span class="field slices" title={error || undefined}>
      {t("slice")}
      {shape.map((size, axis) => (
        <Field
          key={axis}
          axis={axis}
          size={size}
          word={words[axis] ?? ":"}
          wrong={error !== ""}
          onChange={(word) => put(axis, word)}
        />
      ))}
      {index && (
        <button class="quiet" onClick={() => change({ window: "", first: 0 }, false, { index: "" })}>
          {t("whole")}
        </button>
      )}
    </span>
  );
}

interface FieldProps {
  axis: number;
  size: number;
  word: string;
  wrong: boolean;
  onChange: (word: string) => void;
}

function Field({ axis, size, word, wrong, onChange }: FieldProps) {
  const t = useTensorTexts();
  const [typed, setTyped] = useState(word);
  useEffect(() => setTyped(word), [word]);
  const enter = (): void => {
    if (typed.trim() !== word) onChange(typed.replace(/,/g, ""));
  };
  return (
    <label class="slicefield" title={t("slice_tip", axis, size)}>
      <input
        class={wrong ? "num wrong" : "num"}
        data-axis={axis}
        aria-label={t("slice_tip", axis, size)}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onBlur={enter}
        onKeyDown={(event) => event.key === "Enter" && enter()}
      />
      <span class="faint num">{size}</span>
    </label>
  );
}
