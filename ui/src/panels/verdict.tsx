// The verdict: one sentence that says what is wrong, and opens to the whole story.
import type { Answer } from "../api/client";
import type { Verdict } from "../api/types";
import { brief, count, shownPlace, splitPlace } from "../format";
import { CopyMenu } from "../parts/copy";
import { hitsCode } from "../python";
import { useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { useTexts, type Texts } from "../texts";
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
  const before = step === null ? undefined : strip?.recorded.findLast((found) => found < step);
  const others = (run?.ranks ?? []).filter((rank) => rank.rank !== place.rank && rank.hits > 0).slice(0, 4);
  const there = (change: object): void => {
    if (node !== null) select(node, { step, ...change });
    else go({ step, ...change });
  };
  return (
    <section class={wrong ? "verdict wrong" : "verdict calm"} aria-label="verdict">
      <div class="sentence">
        <span class="mark" aria-hidden="true">
          {wrong ? "▲" : run?.lacks.hits ? "–" : "✓"}
        </span>
        <p title={verdict.sentence}>{sentence(verdict, story, t)}</p>
        {others.map((rank) => (
          <button key={rank.rank} onClick={() => go({ rank: rank.rank, step: null, node: null })}>
            {t("rank")} {rank.rank} <span class="hits">{brief(rank.hits)}</span>
          </button>
        ))}
        <span class="grow" />
        {splitPlace(where) && <button onClick={() => there({ view: "source" })}>{t("show_line")}</button>}
        {node !== null && <button onClick={() => there({ view: "graph" })}>{t("show_node")}</button>}
        {before !== undefined && <button onClick={() => there({ step: before })}>{t("step_before")}</button>}
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

function sentence(verdict: Verdict, story: Story | null, t: Texts) {
  if (story) {
    return (
      <>
        <b>{t("v_nonfinite", story.step)}</b> · {t("v_began", "")}
        <code>{story.op_type || story.name}</code>
        {story.where && (
          <>
            {" "}
            · <code>{shownPlace(story.where)}</code>
          </>
        )}{" "}
        · {story.what}
      </>
    );
  }
  const first = verdict.groups[0];
  if (first) {
    return (
      <>
        <b>{first.message}</b> · {t("step")} {first.first_step}
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
  const match = /^Nothing wrong was found in (\d+)/.exec(verdict.sentence);
  return match ? (
    <span title={t("v_nothing_tip")}>
      {t("v_nothing", match[1]!)} · {verdict.state}
    </span>
  ) : (
    verdict.sentence
  );
}
