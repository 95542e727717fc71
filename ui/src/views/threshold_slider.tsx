// A threshold placed over the history of the number that it is compared with.
import { useMemo } from "preact/hooks";
import { question, rankPath } from "../api/client";
import { usePosted } from "../api/posted";
import type { ThresholdHistory } from "../api/types";
import { count, short } from "../format";
import { useLooking } from "../state/looking";
import { useTexts } from "../texts";

const WIDTH = 320;
const HEIGHT = 74;
const PLACES = 1000;

/** From a number to a place from 0 to 1 and back: logarithmic for positive numbers far apart. */
interface Scale {
  place: (number: number) => number;
  number: (place: number) => number;
}

function scaleOf(low: number, high: number): Scale {
  if (low > 0 && high / low > 100) {
    const [from, to] = [Math.log(low), Math.log(high)];
    return {
      place: (number) => (Math.log(Math.max(number, low)) - from) / (to - from),
      number: (place) => Math.exp(from + place * (to - from)),
    };
  }
  return {
    place: (number) => (number - low) / (high - low),
    number: (place) => low + place * (high - low),
  };
}

interface Props {
  /** The watchpoint that is asked about, and which of its thresholds. */
  asked: unknown;
  parameter: string;
  words: string;
  /** The threshold as it stands now; NaN if there is none. */
  given: number;
  /** Whether what passes it is a hit, or only makes one comparison of several true. */
  decides: boolean;
  onChange: (text: string) => void;
}

export function ThresholdSlider({ asked, parameter, words, given, decides, onChange }: Props) {
  const t = useTexts();
  const { place } = useLooking();
  const path = question(`${rankPath(place.run, place.rank)}/watch/history`, { parameter });
  const found = usePosted<ThresholdHistory>(path, asked);
  const history = found.data;
  const scale = useMemo(() => (history?.total ? scaleFor(history) : null), [history]);
  if (!history || !scale) return found.error ? <p class="faint small">{found.error}</p> : null;
  const sample = history.sample.map(Number);
  const at = Number.isFinite(given) ? Math.min(1, Math.max(0, scale.place(given))) : history.above ? 1 : 0;
  const passes = Number.isFinite(given) ? passing(sample, history, given, parameter) : 0;
  const y = (number: number): number => HEIGHT - 6 - scale.place(number) * (HEIGHT - 12);
  return (
    <div class="slider" data-parameter={parameter}>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={t("its_history")}>
        <path class="band" d={band(history, y)} />
        {Number.isFinite(given) && <line class="limit" x1="0" x2={WIDTH} y1={y(scale.number(at))} y2={y(scale.number(at))} />}
      </svg>
      <input
        type="range"
        min="0"
        max={PLACES}
        value={Math.round(at * PLACES)}
        aria-label={t("threshold_of", words)}
        onInput={(e) => onChange(String(Number(scale.number(e.currentTarget.valueAsNumber / PLACES).toPrecision(3))))}
      />
      <p class="small">
        <span class="faint">
          {t("history_range", short(sample[0]), short(sample[sample.length - 1]), count(history.total))}
        </span>
        {Number.isFinite(given) && <b> {t(decides ? "would_pass" : "would_be_beyond", count(passes))}</b>}
        <span class="grow" />
        {history.suggested !== null && (
          <button type="button" class="chip" title={t("suggest_tip")} onClick={() => onChange(String(history.suggested))}>
            {t("suggest", short(history.suggested))}
          </button>
        )}
      </p>
    </div>
  );
}

/** All that was seen, what is suggested, and some room. */
function scaleFor(history: ThresholdHistory): Scale {
  const seen = [...history.sample.map(Number), Number(history.suggested ?? history.sample[0])];
  const [low, high] = [Math.min(...seen), Math.max(...seen)];
  const room = (high - low || Math.abs(high) || 1) * 0.1;
  return low > 0 ? scaleOf(low / 1.5, high * 1.5) : scaleOf(low - room, high + room);
}

/** About how many of the numbers a threshold lets hit. */
function passing(sample: number[], history: ThresholdHistory, limit: number, name: string): number {
  const hit = sample.filter((number) =>
    name.endsWith("_ge") ? number >= limit : history.above ? number > limit : number < limit,
  );
  return Math.round((hit.length / sample.length) * history.total);
}

function band(history: ThresholdHistory, y: (number: number) => number): string {
  const x = (index: number): number => (WIDTH * (index + 0.5)) / history.steps.length;
  const high = history.high.map((number, index) => `${x(index)},${y(Number(number)) - 0.5}`);
  const low = history.low.map((number, index) => `${x(index)},${y(Number(number)) + 0.5}`).reverse();
  return `M${[...high, ...low].join("L")}Z`;
}
