// One of a few words, as buttons that belong together.
import { useTensorTexts, type TensorText } from "./texts";

interface Props<T extends TensorText> {
  say?: string;
  of: readonly T[];
  value: T;
  onChoose: (chosen: T) => void;
}

export function Choice<T extends TensorText>({ say, of, value, onChoose }: Props<T>) {
  const t = useTensorTexts();
  return (
    <span class="field">
      {say}
      <span class="choice" role="group" aria-label={say}>
        {of.map((word) => (
          <button
            key={word}
            class={word === value ? "on" : ""}
            aria-pressed={word === value}
            data-choice={word}
            onClick={() => onChoose(word)}
          >
            {t(word)}
          </button>
        ))}
      </span>
    </span>
  );
}
