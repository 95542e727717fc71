// The top bar: where am I, what is it doing.
import type { ComponentChildren } from "preact";
import { runPath, useAnswer } from "../api/client";
import type { LiveState } from "../api/types";
import { news } from "../api/events";
import { Name } from "../parts/name";
import { StepField } from "../parts/step_field";
import { Switches } from "../parts/switches";
import { useLooking } from "../state/looking";
import { go, openRun } from "../state/place";
import { useStore } from "../state/store";
import { named, useTexts } from "../texts";
import { Search } from "./search";

export function TopBar({ children, onHelp }: { children?: ComponentChildren; onHelp: () => void }) {
  const t = useTexts();
  const { place, run } = useLooking();
  return (
    <header class="topbar">
      <a class="brand" href="/" title={t("all_runs")} onClick={(e) => (e.preventDefault(), openRun(""))}>
        <img src="/icon.svg" alt="" width="18" height="18" />
        opscope
      </a>
      <button
        class="runname"
        title={`${run?.path ?? place.run}\n${run?.command.join(" ") ?? ""}`}
        onClick={() => openRun("")}
      >
        <Name of={run?.name ?? place.run} tail={8} />
        <span class="faint">▾</span>
      </button>
      {run && run.ranks.length > 1 && (
        <label class="field">
          {t("rank")}
          <select
            value={place.rank}
            onChange={(e) => go({ rank: Number(e.currentTarget.value), node: null, file: "", line: 0 })}
          >
            {run.ranks.map((rank) => (
              <option key={rank.rank} value={rank.rank}>
                {rank.rank}
                {rank.hits ? ` · ${rank.hits} ${t("hits")}` : ""}
              </option>
            ))}
          </select>
        </label>
      )}
      <StepField />
      <State />
      {children}
      <Facts />
      <Search />
      <Switches />
      <button class="quiet" onClick={onHelp} title={t("help")} aria-label={t("help")}>
        ?
      </button>
    </header>
  );
}

function State() {
  const { place, run } = useLooking();
  const told = useStore(news);
  const live = useAnswer<LiveState>(run?.live ? `${runPath(place.run)}/live` : null);
  useTexts();
  const rank = run?.ranks.find((found) => found.rank === place.rank);
  if (!rank) return null;
  const connected = live.data?.ranks.find((found) => found.rank === place.rank)?.state;
  const now = connected ?? told?.ranks.find((found) => found.rank === place.rank)?.state ?? rank.state;
  const where = rank.host ? `${rank.host}${rank.pid ? ` · pid ${rank.pid}` : ""}` : "";
  return (
    <span class={`state state-${now}`} title={`${rank.words}\n${where}`}>
      <span class="dot" />
      {named("state", now)}
    </span>
  );
}

/** The process, its device and versions, as far as there is room. */
function Facts() {
  const { place, run } = useLooking();
  const rank = run?.ranks.find((found) => found.rank === place.rank);
  const { device, torch } = run?.versions ?? {};
  const process = rank?.host && `${rank.host}${rank.pid ? ` · pid ${rank.pid}` : ""}`;
  const all = Object.entries(run?.versions ?? {}).map(([name, version]) => `${name} ${version}`);
  const shown = [process, device, torch && `torch ${torch}`].filter(Boolean);
  return (
    <span class="process grow" title={[process, ...all].filter(Boolean).join("\n")}>
      {shown.map((fact) => (
        <span key={fact}>{fact}</span>
      ))}
    </span>
  );
}
