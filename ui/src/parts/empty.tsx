// What stands where there is nothing yet: it says what will, or why not.
import type { Answer } from "../api/client";
import { useTexts, type TextName } from "../texts";

export function Empty({ say, parts = [] }: { say: TextName; parts?: (string | number)[] }) {
  const t = useTexts();
  return <p class="empty">{t(say, ...parts)}</p>;
}

/** Of an answer without data: that it is awaited, or what is wrong. */
export function Waiting({ answer }: { answer: Answer<unknown> }) {
  const t = useTexts();
  if (!answer.error) return <p class="empty waiting">{t("loading")}</p>;
  const { status, message } = answer.error;
  return <p class="empty">{status === 0 ? t("offline") : t("failed", message)}</p>;
}
