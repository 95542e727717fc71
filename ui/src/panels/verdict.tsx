// The verdict: one sentence that says what is wrong, and opens to the whole story.
import { runPath, useAnswer, type Answer } from "../api/client";
import type { Verdict } from "../api/types";
import type { WatchpointLine } from "../api/watch";
import { brief, count, shownPlace, splitPlace } from "../format";
import { CopyMenu } from "../parts/copy";
import { Figure } from "../parts/number";
import { hitsCode } from "../python";
import { useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { stepBefore } from "../state/steps";
import { named, useTexts, type Texts } from "../texts";
import { storyOf, type Story } from "./story";
import { StoryPanel } from "./story_panel";

export function VerdictBar({ answer }: { answer: Answer<Verdict> }) {
  const t = useTexts();
  const { place, run, strip } = useLooking();
  const verdict = answer.data;
  if (!verdict)
    return (
      <div class="verdict calm" role="status">
        {answer.error ? answer.error.message || t("offline") : t("loading")}
      </div>
    );
  const story = storyOf(verdict);
  const first = verdict.groups[0];
  const node = story?.node ?? first?.node ?? null;
  const where = story?.where ?? first?.where ?? "";
  const step = story?.step ?? verdict.step;
  const wrong = verdict.hits > 0;
  const before = stepBefore(strip, step);
  const others = (run?.ranks ?? []).filter((rank) => rank.rank !== place.rank && rank.hits > 0).slice(0, 4);
  const there = (change: object): void => {
    if (node !== null) select(node, { step, ...change });
    else go({ step, ...change });
  };
  return (
    <section
      class={`verdict ${wrong ? "wrong" : "calm"} ${place.why && wrong ? "open" : ""}`}
      aria-label="verdict"
    >
      <div class="sentence">
        <span class={run?.lacks.hits ? "mark faint" : "mark"} aria-hidden="true">
          {wrong ? "▲" : run?.lacks.hits ? "–" : "✓"}
        </span>
        <p title={verdict.sentence}>
          {sentence(verdict, story, wrong && (run?.ranks.length ?? 1) > 1 ? place.rank : null, t)}
        </p>
        {others.map((rank) => (
          <button key={rank.rank} onClick={() => go({ rank: rank.rank, step: null, node: null })}>
            {t("rank")} {rank.rank} <span class="hits">{brief(rank.hits)}</span>
          </button>
        ))}
        {verdict.notes > 0 && (
          <button title={t("v_noted_tip")} onClick={() => go({ list: "hits" })}>
            {t("v_noted", count(verdict.notes))}
          </button>
        )}
        <span class="grow" />
        {splitPlace(where) && <button onClick={() => there({ view: "source" })}>{t("show_line")}</button>}
        {node !== null && <button onClick={() => there({ view: "graph" })}>{t("show_node")}</button>}
        {before !== null && node !== null && (
          <button title={t("compare_tip", before)} onClick={() => there({ before: true })}>
            {t("compare")}
          </button>
        )}
        {wrong && (
          <button
            class={place.why ? "on" : ""}
            aria-expanded={place.why}
            onClick={() => go({ why: !place.why }, true)}
          >
            {place.why ? t("hide") : t("why")}
          </button>
        )}
        <CopyMenu json={() => verdict} python={() => hitsCode(run?.path ?? "last")} />
      </div>
      {place.why && wrong && <StoryPanel verdict={verdict} story={story} />}
    </section>
  );
}

/** What is wrong; the rank is named where there are several. */
function sentence(verdict: Verdict, story: Story | null, rank: number | null, t: Texts) {
  const whose = rank !== null && (
    <>
      {" "}
      · {t("rank")} {rank}
    </>
  );
  if (story) {
    return (
      <>
        <b>{t("v_nonfinite", story.step)}</b>
        {whose} · {t("v_began", "")}
        <code>{story.op_type || story.name}</code>
        {story.where && (
          <>
            {" "}
            · <code>{shownPlace(story.where)}</code>
          </>
        )}{" "}
        {story.divergence && <> · {t("v_diverges", story.divergence.since)}</>} · {story.what}
      </>
    );
  }
  const first = verdict.groups[0];
  if (first) {
    return (
      <>
        <b>{first.message}</b> · {t("step")} {first.first_step}
        {whose}
        {first.where && (
          <>
            {" "}
            · <code>{shownPlace(first.where)}</code>
          </>
        )}
        {verdict.hits > 1 && <> · {t("hits_total", count(verdict.hits))}</>}
      </>
    );
  }
  return <Calm verdict={verdict} />;
}

/** Nothing is wrong: what is watched, and how it goes. */
function Calm({ verdict }: { verdict: Verdict }) {
  const t = useTexts();
  const { place, strip } = useLooking();
  const points = useAnswer<WatchpointLine[]>(`${runPath(place.run)}/watchpoints`);
  const steps = /^Nothing wrong was found in (\d+)/.exec(verdict.sentence)?.[1];
  if (steps === undefined) return <>{verdict.sentence}</>;
  const watching = points.data?.filter((point) => point.enabled !== false) ?? [];
  const losses = (strip?.loss ?? []).filter((loss) => loss !== null);
  const [first, last] = [losses[0], losses[losses.length - 1]];
  return (
    <span title={t("v_nothing_tip")}>
      {t("v_nothing", steps)} · {named("state", verdict.state)}
      {watching.length > 0 && (
        <span title={watching.map((point) => point.name || point.condition).join("\n")}>
          {" "}
          · {t("v_watching", watching.length)}
        </span>
      )}
      {losses.length > 1 && (
        <>
          {" "}
          · {t("loss")} <Figure of={first} /> → <Figure of={last} />
        </>
      )}
    </span>
  );
}
