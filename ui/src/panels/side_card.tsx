// An input or output of a node: what it is, its numbers, where it comes from, its trend.
import { useState } from "preact/hooks";
import { apiLink } from "../api/client";
import type { NodeDetails, Numbers, Side } from "../api/types";
import { count, full, isBad, kind, short, type Num } from "../format";
import { Name } from "../parts/name";
import { BadCount, Figure, Range } from "../parts/number";
import { Trend } from "../parts/trend";
import { aboutStep, useLooking } from "../state/looking";
import { select } from "../state/place";
import { openValue } from "../tensor/state";
import { useTexts, type TextName } from "../texts";
import { ComparedNumbers } from "./compared_numbers";

interface Props {
  node: NodeDetails;
  side: Side;
  /** The node in another step, to compare with. */
  before: NodeDetails | undefined;
}

export function SideCard({ node, side, before }: Props) {
  const t = useTexts();
  const { place } = useLooking();
  const isInput = side.io === "input";
  const other = (isInput ? before?.inputs : before?.outputs)?.find((one) => one.slot === side.slot);
  const [open, setOpen] = useState(!isInput);
  const bad = side.numbers
    ? Number(side.numbers.nan) + Number(side.numbers.posinf) + Number(side.numbers.neginf)
    : 0;
  const npy = apiLink(
    aboutStep(place, `values/${node.id}/${side.io}/${side.slot}/npy`, { pass: place.pass || null }),
  );
  return (
    <section class={bad ? "card wrong" : "card"} data-side={`${side.io}:${side.slot}`}>
      <header>
        <button
          class="quiet twist"
          aria-expanded={open}
          aria-label={`${t(isInput ? "input" : "output")} ${side.slot}`}
          onClick={() => setOpen(!open)}
        >
          {open ? "▾" : "▸"}
        </button>
        <b>
          {t(isInput ? "input" : "output")} {side.slot}
        </b>
        <code>{kind(side.dtype, side.shape)}</code>
        {side.uninitialised && <span class="faint">{t("uninitialised")}</span>}
        <span class="grow" />
        <button class="chip" onClick={() => openValue(node.id, `${side.io}:${side.slot}`)}>
          {t("view_value")}
        </button>
        {side.saved && (
          <a class="chip" href={npy} download>
            {t("npy")}
          </a>
        )}
      </header>
      {(side.source || side.parameter) && (
        <p class="source">
          {isInput && side.source && <span class="faint">{t("fed_by")} </span>}
          {side.source_node !== null ? (
            <button class="link" title={side.source} onClick={() => select(side.source_node!)}>
              <Name of={side.source} tail={24} />
            </button>
          ) : (
            <Name of={side.source || side.parameter} tail={24} />
          )}
        </p>
      )}
      {side.elements && (
        <p class="elements num">
          {side.elements.map((one, index) => (
            <span key={index} class={isBad(one) ? "bad" : ""} title={full(one)}>
              {short(one)}
            </span>
          ))}
        </p>
      )}
      {!side.numbers ? (
        <p class="faint">{t("no_numbers")}</p>
      ) : other?.numbers ? (
        <ComparedNumbers of={side.numbers} at={node.step} other={other.numbers} then={before!.step} />
      ) : side.elements?.length === 1 ? null : open ? (
        <NumbersTable of={side.numbers} extra={side.extra} />
      ) : (
        <BriefNumbers of={side.numbers} />
      )}
      {side.numbers && open && !isInput && <Trend node={node.id} io={side.io} slot={side.slot} />}
    </section>
  );
}

const SHOWN: (keyof Numbers & TextName)[] = ["min", "max", "mean", "std", "mean_abs", "l2"];

/** The numbers of a value in one line. */
function BriefNumbers({ of }: { of: Numbers }) {
  const t = useTexts();
  return (
    <p class="briefnumbers">
      <BadCount nan={of.nan} inf={Number(of.posinf) + Number(of.neginf)} />
      <Range low={of.min} high={of.max} />
      <span class="faint">{t("mean")}</span> <Figure of={of.mean} />
    </p>
  );
}

function NumbersTable({ of, extra }: { of: Numbers; extra: Side["extra"] }) {
  const t = useTexts();
  const share = Number(of.count) ? (100 * Number(of.zero)) / Number(of.count) : 0;
  const bad: [string, Num][] = [
    ["NaN", of.nan],
    ["+Inf", of.posinf],
    ["−Inf", of.neginf],
  ];
  return (
    <dl class="numbers">
      {bad
        .filter(([, found]) => Number(found) > 0)
        .map(([name, found]) => (
          <div key={name} class="bad">
            <dt>{name}</dt>
            <dd class="num" title={`${full(found)} / ${full(of.count)}`}>
              {count(found)} / {count(of.count)}
            </dd>
          </div>
        ))}
      {SHOWN.map((name) => (
        <div key={name}>
          <dt>{t(name)}</dt>
          <dd class={isBad(of[name]) ? "num bad" : "num"} title={full(of[name])}>
            {short(of[name])}
          </dd>
        </div>
      ))}
      {Object.entries(extra).map(([name, found]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class={isBad(found) ? "num bad" : "num"} title={full(found)}>
            {short(found)}
          </dd>
        </div>
      ))}
      <div>
        <dt>{t("zeros")}</dt>
        <dd class="num" title={`${full(of.zero)} / ${full(of.count)}`}>
          {share === 0 ? "0" : `${share.toPrecision(3)} %`}
        </dd>
      </div>
      <div>
        <dt>{t("elements")}</dt>
        <dd class="num">{count(of.count)}</dd>
      </div>
    </dl>
  );
}
