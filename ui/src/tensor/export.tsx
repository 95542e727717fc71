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
  const file = (kind: string): string => apiLink(asking.ask(kind, { index: place.index }));
  const code = pythonOf(run?.path ?? "last", facts, asking);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(code).catch(() => undefined);
    setDone(true);
    setTimeout(() => setDone(false), 1200);
  };
  return (
    <span class="export">
      {facts.held && (
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

/** Python that has the same elements; those that a training holds are asked for over HTTP. */
export function pythonOf(path: string, facts: ValueFacts, asking: Asking): string {
  const address = JSON.stringify(facts.address);
  const { index } = asking.place;
  const taken = index ? `[${index}]` : "";
  if (facts.held === "dump" || facts.held === "hit") {
    const rank = facts.rank ? `, rank=${facts.rank}` : "";
    return `${openLine(path)}array = run.value(${address}, step=${facts.step}${rank}).array()${taken}\n`;
  }
  const link = location.origin + apiLink(asking.ask("npy", { index }));
  if (facts.held) return LIVE.replace("LINK", () => JSON.stringify(link));
  return `${openLine(path)}print(run.value(${address}, step=${facts.step}).stats())\n`;
}

const LIVE = `import io
import urllib.request

import numpy as np
from opscope.access_token import own_token

link = LINK
request = urllib.request.Request(link, headers={"authorization": f"Bearer {own_token()}"})
array = np.load(io.BytesIO(urllib.request.urlopen(request).read()))
`;
