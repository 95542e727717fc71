// What single hits and groups of them have in common.
import { short, type Num } from "../format";
import { openValue } from "../tensor/state";
import { useTexts, type Texts } from "../texts";

/** The thresholds that were given, in words. */
export function askedWords(params: Record<string, Num>, t: Texts): string {
  const asked = Object.entries(params).map(([name, found]) => `${name} ${short(found)}`);
  return asked.length ? `${t("threshold")} ${asked.join(", ")}` : "";
}

export function ViewButton({ node, value, step }: { node: number; value: string; step: number }) {
  const t = useTexts();
  const view = (event: MouseEvent): void => {
    event.stopPropagation();
    openValue(node, value, { step });
  };
  return (
    <button class="chip" onClick={view}>
      {t("view_value")}
    </button>
  );
}
