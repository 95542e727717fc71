// The value as a file, and as Python.
import { useState } from "preact/hooks";
import { apiLink } from "../api/client";
import type { ValueFacts } from "../api/types";
import { openLine } from "../python";
import { useLooking } from "../state/looking";
import type { Asking } from "./state";
import { useTensorTexts } from "./texts";

export function Export({ asking, facts }: { asking: Asking; facts: ValueFacts }) {
  const t = useTensorTexts();
  const { run, place } = useLooking();
  const [open, setOpen] = useState(false);
  const [done, setDone] = useState(false);
  const isFile = facts.held === "dump" || facts.held === "hit";
  const file = (kind: string): string => apiLink(asking.ask(kind, { index: place.index }));
  const code = pythonOf(run?.path ?? "last", facts, place.index);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(code).catch(() => undefined);
    setDone(true);
    setTimeout(() => setDone(false), 1200);
  };
  return (
    <span class="export">
      {isFile && (
        <>
          <a class="chip" href={file("npy")} download title={t("download")}>
            .npy
          </a>
          <a class="chip" href={file("safetensors")} download title={t("download")}>
            .safetensors
          </a>
        </>
      )}
      <button class="chip" aria-expanded={open} onClick={() => setOpen(!open)}>
        {t("python")}
      </button>
      {open && (
        <div class="snippet" role="dialog" aria-label={t("python_tip")}>
          <pre>{code}</pre>
          <button onClick={() => void copy()}>{done ? t("copied") : t("copy")}</button>
        </div>
      )}
    </span>
  );
}

/** Python that has the same elements. */
export function pythonOf(path: string, facts: ValueFacts, index: string): string {
  const address = JSON.stringify(facts.address);
  const taken = index ? `[${index}]` : "";
  if (facts.held === "dump" || facts.held === "hit") {
    const rank = facts.rank ? `, rank=${facts.rank}` : "";
    return `${openLine(path)}array = run.value(${address}, step=${facts.step}${rank}).array()${taken}\n`;
  }
  if (facts.held === "kept")
    return `# in a terminal: what the training keeps\n# opscope ctl last value ${facts.name} ${index || ":"}\n`;
  if (facts.held === "parameter")
    return `# in a terminal: the parameter as it is now\n# opscope ctl last parameter ${facts.parameter} ${index || ":"}\n`;
  return `${openLine(path)}print(run.value(${address}, step=${facts.step}).stats())\n`;
}
