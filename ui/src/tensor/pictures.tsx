// Filters, images, channels and attention maps, as a sheet of small pictures.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { PictureKind, Pictures as Answer } from "../api/types";
import { value } from "../format";
import { Waiting } from "../parts/empty";
import { useSize } from "../parts/width";
import { useStore } from "../state/store";
import { colour, shownTheme } from "../state/theme";
import { rgbOf } from "./heat_drawing";
import { useLatest } from "./latest";
import { makeScale, shade, type Rgb } from "./scale";
import type { Asking } from "./state";
import { Pages } from "./statistics";
import { useTensorTexts, type TensorText } from "./texts";

const COUNT = 64;
const GAP = 6;

export function Pictures({ asking, kind, live }: { asking: Asking; kind: PictureKind; live: boolean }) {
  const t = useTensorTexts();
  const [box, width, height] = useSize();
  const { first } = asking.state;
  const answer = useLatest<Answer>(
    asking.askShown("pictures", { index: null, fold: null, first: first || null, count: COUNT }),
    live,
  );
  return (
    <div class="pictureslook">
      <div class="lookbar">
        <b>{t(kind.kind as TensorText)}</b>
        <span class="faint num">
          {kind.count} × {kind.height} × {kind.width}
        </span>
        <span class="grow" />
        {kind.count > COUNT && <Pages first={first} size={COUNT} total={kind.count} />}
      </div>
      <div class="sheet scroll" ref={box}>
        {answer.data && width > 60 ? (
          <Sheet of={answer.data} width={width - 16} height={height} />
        ) : (
          <Waiting answer={answer} />
        )}
      </div>
    </div>
  );
}

function Sheet({ of, width, height }: { of: Answer; width: number; height: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = useStore(shownTheme) === "dark";
  const side = sideOf(of, width, height);
  const across = Math.max(1, Math.floor((width + GAP) / (side * of.columns + GAP)));
  const down = Math.ceil(of.shown / across);
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || !of.shown) return;
    element.width = across * (side * of.columns + GAP) - GAP;
    element.height = down * (side * of.rows + GAP) - GAP;
    const brush = element.getContext("2d")!;
    brush.imageSmoothingEnabled = false;
    const paint = painter(of, dark);
    for (let number = 0; number < of.shown; number++) {
      const x = (number % across) * (side * of.columns + GAP);
      const y = Math.floor(number / across) * (side * of.rows + GAP);
      brush.drawImage(onePicture(of, number, paint), x, y, side * of.columns, side * of.rows);
    }
  }, [of, side, across, dark]);
  return <canvas ref={canvas} class="tensorcanvas" role="img" aria-label={of.kind} />;
}

/** How many pixels a point gets: as many as let all pictures be seen at once, within reason. */
function sideOf(of: Answer, width: number, height: number): number {
  for (let side = 24; side > 1; side--) {
    const across = Math.floor((width + GAP) / (side * of.columns + GAP));
    if (across > 0 && Math.ceil(of.shown / across) * (side * of.rows + GAP) <= Math.max(height, 160))
      return side;
  }
  return 1;
}

type Painter = (at: number) => Rgb;

function painter(of: Answer, dark: boolean): Painter {
  const numbers = of.elements.map((one) => value(one) ?? NaN);
  const finite = numbers.filter(Number.isFinite);
  const [nan, bad] = [rgbOf(colour("nan")), rgbOf(colour("bad"))];
  const wrong = (one: number): Rgb => (Number.isNaN(one) ? nan : bad);
  let [low, high] = [Infinity, -Infinity];
  for (const one of finite) [low, high] = [Math.min(low, one), Math.max(high, one)];
  if (of.colours === 3) {
    const byte = (one: number): number => Math.round((255 * (one - low)) / (high - low || 1));
    return (at) => {
      const three = [numbers[at * 3]!, numbers[at * 3 + 1]!, numbers[at * 3 + 2]!];
      const found = three.find((one) => !Number.isFinite(one));
      return found === undefined ? [byte(three[0]!), byte(three[1]!), byte(three[2]!)] : wrong(found);
    };
  }
  const scale = makeScale(Math.max(Math.abs(low), Math.abs(high)), 0, false);
  const share = (one: number): number =>
    of.kind === "attention" ? (one - low) / (high - low || 1) : scale.share(one);
  return (at) => {
    const one = numbers[at]!;
    return Number.isFinite(one) ? shade(share(one), dark) : wrong(one);
  };
}

function onePicture(of: Answer, number: number, paint: Painter): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = of.columns;
  canvas.height = of.rows;
  const brush = canvas.getContext("2d")!;
  const image = brush.createImageData(of.columns, of.rows);
  const size = of.rows * of.columns;
  for (let point = 0; point < size; point++)
    image.data.set([...paint(number * size + point), 255], point * 4);
  brush.putImageData(image, 0, 0);
  return canvas;
}
