// The ranks beside each other: how each stands, and where one first differs.
import { runPath, useAnswer } from "../api/client";
import type { RankDifference, RanksCompared } from "../api/types";
import { count, shownPlace } from "../format";
import { CopyMenu } from "../parts/copy";
import { Waiting } from "../parts/empty";
import { Name } from "../parts/name";
import { Figure } from "../parts/number";
import { openLine } from "../python";
import { useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { named, useTexts } from "../texts";

export function RanksView() {
  const t = useTexts();
  const { place, run } = useLooking();
  const answer = useAnswer<RanksCompared>(`${runPath(place.run)}/compare`);
  if (!answer.data) return <Waiting answer={answer} />;
  const { ranks, differences, steps } = answer.data;
  return (
    <div class="ranksview scroll">
      <div class="viewbar">
        <b>{differences.length ? t("ranks_differ") : t("ranks_alike", count(steps))}</b>
        <span class="grow" />
        <CopyMenu json={() => answer.data} python={() => `${openLine(run?.path ?? "last")}print(run.ranks)\n`} />
      </div>
      {differences.map((found, index) => (
        <Difference key={found.kind} found={found} isFirst={index === 0} />
      ))}
      <table class="table">
        <thead>
          <tr>
            <th>{t("rank")}</th>
            <th>{t("state")}</th>
            <th class="end">{t("step")}</th>
            <th class="end">{t("loss")}</th>
            <th class="end">{t("gradient_norm")}</th>
            <th class="end">{t("hit_count")}</th>
            <th class="end">{t("node_count")}</th>
          </tr>
        </thead>
        <tbody>
          {ranks.map((rank) => (
            <tr
              key={rank.rank}
              class={rank.rank === place.rank ? "on" : ""}
              onClick={() => go({ rank: rank.rank, node: null, file: "", line: 0 })}
            >
              <td class="num">{rank.rank}</td>
              <td>
                <span class={`state state-${rank.state}`}>
                  <span class="dot" />
                  {named("state", rank.state)}
                </span>
              </td>
              <td class="end num">{rank.last_step ?? "–"}</td>
              <td class="end">
                <Figure of={rank.loss} />
              </td>
              <td class="end">
                <Figure of={rank.gradient_norm} />
              </td>
              <td class="end num">{rank.hits > 0 ? <span class="hits">{rank.hits}</span> : 0}</td>
              <td class="end num">{count(rank.nodes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Difference({ found, isFirst }: { found: RankDifference; isFirst: boolean }) {
  const t = useTexts();
  const show = (): void => {
    const there = { rank: found.rank, step: found.step };
    if (found.node === null) go({ ...there, node: null });
    else select(found.node, there);
  };
  return (
    <section class={isFirst ? "rankdiff first" : "rankdiff"} data-kind={found.kind}>
      <p>
        <b>
          {t("rank")} {found.rank} · {t("step")} {found.step} · {named("differs", found.kind)}
        </b>
        <span class="grow" />
        <button onClick={show}>{t("show")}</button>
      </p>
      <p>
        {(found.parameter || found.name) && <Name of={found.parameter || found.name} tail={30} />}{" "}
        {found.where && <span class="where">{shownPlace(found.where)}</span>}
      </p>
      <p class="faint">{found.what}</p>
    </section>
  );
}
