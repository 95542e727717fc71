// What is done with all watchpoints at once: recommended ones, import, export, clear.
import { useRef } from "preact/hooks";
import type { Change, WatchpointLine } from "../api/watch";
import { useMenu } from "../parts/menu";
import { useTexts } from "../texts";

interface Props {
  points: WatchpointLine[];
  onChange: (order: Change) => void;
  onProblem: (text: string) => void;
}

const MOST_BYTES = 500_000;

export function WatchMenu({ points, onChange, onProblem }: Props) {
  const t = useTexts();
  const { open, setOpen, box } = useMenu();
  const file = useRef<HTMLInputElement>(null);
  const item = (say: string, act: () => void, disabled = false) => (
    <button role="menuitem" disabled={disabled} onClick={() => (setOpen(false), act())}>
      {say}
    </button>
  );
  const take = async (chosen: File | undefined): Promise<void> => {
    if (!chosen) return;
    if (chosen.size > MOST_BYTES) return onProblem(t("import_large"));
    try {
      const watch: unknown = JSON.parse(await chosen.text());
      onChange({ action: "add", watch: watch as { watchpoints: unknown[] } });
    } catch {
      onProblem(t("import_wrong", chosen.name));
    }
  };
  return (
    <div class="copy" ref={box}>
      <button aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
        {t("watch_all")} ▾
      </button>
      <input
        ref={file}
        type="file"
        accept=".json,application/json"
        hidden
        aria-label={t("watch_import")}
        onChange={(e) => {
          void take(e.currentTarget.files?.[0]);
          e.currentTarget.value = "";
        }}
      />
      {open && (
        <div class="menu" role="menu">
          {item(t("watch_recommended"), () => onChange({ action: "add", watch: "recommended" }))}
          {item(t("watch_import"), () => file.current?.click())}
          {item(t("watch_export"), () => download(points), !points.length)}
          {item(
            t("watch_clear"),
            () => onChange({ action: "set", watch: { watchpoints: [] } }),
            !points.length,
          )}
        </div>
      )}
    </div>
  );
}

/** Give the watchpoints as a file that `--watch` takes. */
function download(points: WatchpointLine[]): void {
  const text = `${JSON.stringify({ version: 1, watchpoints: points }, null, 1)}\n`;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "watchpoints.json";
  link.click();
  URL.revokeObjectURL(link.href);
}
