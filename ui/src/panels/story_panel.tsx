// The whole story of a verdict: what went in, what came out, how far it went, what helps.
import type { ComponentChildren } from "preact";
import type { Verdict } from "../api/types";
import { count, kind, short, shownPlace } from "../format";
import { Name } from "../parts/name";
import { Figure, Range } from "../parts/number";
import { PhaseMark } from "../parts/phase";
import { go, listNodes, select } from "../state/place";
import { useTexts } from "../texts";
import { Onward } from "./control";
import type { Divergence, Story, StoryValue } from "./story";

export function StoryPanel({ verdict, story }: { verdict: Verdict; story: Story | null }) {
  const t = useTexts();
  const others = verdict.groups.filter((group) => !story || group.node !== story.node);
  return (
    <div class="story">
      {story && (
        <dl>
          <Origin story={story} />
        </dl>
      )}
      <dl>
        {story && <Surroundings story={story} />}
        {others.length > 0 && (
          <Fact label={t("v_others")}>
            {others.slice(0, 8).map((group) => (
              <button
                key={`${group.condition}${group.name}`}
                class="link line"
                onClick={() =>
                  group.node === null
                    ? go({ step: group.first_step })
                    : select(group.node, { step: group.first_step })
                }
              >
                <b>{group.condition}</b> {group.message} · {t("step")} {group.first_step}
                {group.count > 1 && ` … ${group.last_step} (×${group.count})`}
              </button>
            ))}
            {others.length > 8 && (
              <button class="link" onClick={() => go({ list: "hits" })}>
                {t("more", others.length - 8)}
              </button>
            )}
          </Fact>
        )}
      </dl>
    </div>
  );
}

function Origin({ story }: { story: Story }) {
  const t = useTexts();
  return (
    <>
      <Fact label={t("v_operator")}>
        <PhaseMark of={story.phase} /> <Name of={story.name} tail={30} />
        <span class="faint"> {story.op}</span>
        {story.forward && <div class="faint">{t("v_gradient_of", story.forward)}</div>}
      </Fact>
      {story.divergence && (
        <Fact label={t("v_growth")}>
          <Growth of={story.divergence} />
        </Fact>
      )}
      {story.code && (
        <Fact label={t("v_code")}>
          <code class="where">{shownPlace(story.where)}</code> <code>{story.code}</code>
        </Fact>
      )}
      {story.culprit && <Fact label={t("v_culprit")}>{story.culprit}</Fact>}
      <Fact label={t("v_inputs")}>
        {story.inputs.map((input) => (
          <ValueLine key={input.slot} of={input} />
        ))}
      </Fact>
      <Fact label={t("v_outputs")}>
        {story.outputs.map((output) => (
          <ValueLine key={output.slot} of={output} />
        ))}
      </Fact>
      {story.advice && (
        <Fact label={t("v_advice")}>
          <b>{story.advice}</b>
        </Fact>
      )}
      <dt />
      <dd>
        <Onward />
      </dd>
    </>
  );
}

/** What it reached, and what was there before. */
function Surroundings({ story }: { story: Story }) {
  const t = useTexts();
  const reached = [
    story.reached.loss ? t("v_the_loss") : "",
    story.reached.gradients ? t("v_gradients", story.reached.gradients) : "",
    story.reached.parameters ? t("v_parameters", story.reached.parameters) : "",
    story.reached.buffers ? t("v_buffers", story.reached.buffers) : "",
    story.reached.state ? t("v_state") : "",
    story.spread ? t("v_spread", count(story.spread.values), count(story.spread.of)) : "",
  ].filter(Boolean);
  return (
    <>
      {reached.length > 0 && <Fact label={t("v_reached")}>{reached.join(" · ")}</Fact>}
      {story.others > 0 && <Fact label={t("v_elsewhere")}>{t("v_more_births", story.others)}</Fact>}
      {story.history.length > 0 && (
        <Fact label={t("v_history")}>
          {story.history.map((each) => (
            <button key={each.step} class="link line" onClick={() => go({ step: each.step })}>
              {t("step")} {each.step} <Range low={each.min} high={each.max} />
            </button>
          ))}
        </Fact>
      )}
      {story.abnormal && (
        <Fact label={t("v_abnormal")}>
          <button class="link" onClick={() => go({ step: story.abnormal!.step })}>
            {t("v_since", story.abnormal.step, short(story.abnormal.largest), short(story.abnormal.before))}
          </button>{" "}
          <code class="faint">{story.abnormal.name}</code>
        </Fact>
      )}
      {story.before.length > 0 && (
        <Fact label={t("v_before")}>
          {story.before.map((place) => (
            <div class="line" key={place.name}>
              <code>{place.name}</code> <span class="where">{shownPlace(place.where)}</span>{" "}
              <Range low={place.min} high={place.max} />
            </div>
          ))}
        </Fact>
      )}
    </>
  );
}

/** Since when values grew, how fast, and where first. */
function Growth({ of }: { of: Divergence }) {
  const t = useTexts();
  return (
    <>
      <button class="link" onClick={() => go({ step: of.since })}>
        {t("v_grew", of.since, of.what, short(of.factor), short(of.from), short(of.to))}
      </button>
      <div class="line">
        {t("v_grew_first")}{" "}
        <button class="link" onClick={() => listNodes(of.first)}>
          <Name of={of.first} tail={30} />
        </button>
      </div>
    </>
  );
}

function Fact({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </>
  );
}

function ValueLine({ of }: { of: StoryValue }) {
  const t = useTexts();
  const bad = Number(of.nan ?? 0) + Number(of.posinf ?? 0) + Number(of.neginf ?? 0);
  return (
    <div class="line">
      <span class="num">{of.slot}</span> <code>{kind(of.dtype, of.shape)}</code>{" "}
      <Range low={of.min} high={of.max} />
      <span class="faint"> {t("mean")} </span>
      <Figure of={of.mean} />
      {bad > 0 && (
        <span class="bad">
          {" "}
          {[
            Number(of.nan) ? `${count(of.nan)} NaN` : "",
            Number(of.posinf) ? `${count(of.posinf)} +Inf` : "",
            Number(of.neginf) ? `${count(of.neginf)} −Inf` : "",
          ]
            .filter(Boolean)
            .join(", ")}
        </span>
      )}
      {of.source && <span class="faint"> {of.source}</span>}
    </div>
  );
}
