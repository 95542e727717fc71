// The menu of every panel: what it shows, as JSON, as Python, or as a link.
import { useState } from "preact/hooks";
import { useTexts } from "../texts";
import { useMenu } from "./menu";

interface Props {
  json: () => unknown;
  python: () => string;
}

async function toClipboard(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

function CopyIcon() {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="13" height="13" aria-hidden="true">
      <rect x="5.5" y="5.5" width="8" height="9" rx="1.5" />
      <path d="M3.5 10.5h-1v-9h8v1.5" />
    </svg>
  );
}

export function CopyMenu({ json, python }: Props) {
  const t = useTexts();
  const { open, setOpen, box } = useMenu();
  const [done, setDone] = useState(false);
  const copy = (make: () => string) => () => {
    void toClipboard(make()).then(() => {
      setOpen(false);
      setDone(true);
      setTimeout(() => setDone(false), 1200);
    });
  };
  return (
    <div class="copy" ref={box}>
      <button
        class="quiet"
        title={t("copy")}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {done ? t("copied") : <CopyIcon />}
      </button>
      {open && (
        <div class="menu" role="menu">
          <button role="menuitem" onClick={copy(() => JSON.stringify(json(), null, 2))}>
            {t("copy_json")}
          </button>
          <button role="menuitem" onClick={copy(python)}>
            {t("copy_python")}
          </button>
          <button role="menuitem" onClick={copy(() => location.href)}>
            {t("copy_link")}
          </button>
        </div>
      )}
    </div>
  );
}
