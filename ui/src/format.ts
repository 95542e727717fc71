// Numbers and names for people: four digits, shortened in the middle, whole on hover.

export type Num = number | string | null | undefined;

const WORDS: Record<string, number> = { NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity };

/** A number of an answer, where NaN and infinities are words. */
export function value(found: Num): number | null {
  if (found === null || found === undefined) return null;
  if (typeof found === "number") return found;
  return found in WORDS ? WORDS[found]! : Number(found);
}

export function isBad(found: Num): boolean {
  const number = value(found);
  return number !== null && !Number.isFinite(number);
}

/** Four significant digits. */
export function short(found: Num): string {
  const number = value(found);
  if (number === null) return "–";
  if (Number.isNaN(number)) return "NaN";
  if (!Number.isFinite(number)) return number > 0 ? "+Inf" : "−Inf";
  if (number === 0) return "0";
  const size = Math.abs(number);
  let text: string;
  if (Number.isInteger(number) && size < 1e5) text = String(number);
  else if (size >= 1e5 || size < 1e-3) text = number.toExponential(3).replace("e+", "e");
  else text = number.toPrecision(4);
  return text.replace(/-/g, "−");
}

/** A number beside an axis: as few characters as tell it apart. */
export function tick(number: number): string {
  const size = Math.abs(number);
  const far = size !== 0 && (size >= 1e4 || size < 0.01);
  const text = far
    ? number.toExponential(1).replace(".0e", "e").replace("e+", "e")
    : String(Number(number.toPrecision(2)));
  return text.replace(/-/g, "−");
}

/** All digits. */
export function full(found: Num): string {
  return found === null || found === undefined ? "" : String(found);
}

/** A count with spaces between thousands. */
export function count(found: Num): string {
  if (found === null || found === undefined) return "–";
  return String(found).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

/** A few characters for a count: 913k. */
export function brief(found: Num): string {
  const number = Number(found ?? 0);
  if (number < 10_000) return String(number);
  if (number < 1e6) return `${Math.round(number / 1e3)}k`;
  if (number < 1e9) return `${Math.round(number / 1e6)}M`;
  return number.toExponential(0).replace("e+", "e");
}

export function bytes(found: Num): string {
  let number = Number(found ?? 0);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (number < 1024)
      return `${number < 10 && unit !== "B" ? number.toFixed(1) : Math.round(number)} ${unit}`;
    number /= 1024;
  }
  return `${number.toFixed(1)} TiB`;
}

export function seconds(found: Num): string {
  const number = value(found);
  if (number === null || !Number.isFinite(number)) return "–";
  if (number < 1e-3) return `${(number * 1e6).toFixed(0)} µs`;
  if (number < 1) return `${(number * 1e3).toFixed(number < 0.01 ? 2 : 1)} ms`;
  if (number < 120) return `${number.toFixed(2)} s`;
  return `${Math.floor(number / 60)} min ${Math.round(number % 60)} s`;
}

const DTYPES: Record<string, string> = {
  float64: "f64",
  float32: "f32",
  float16: "f16",
  bfloat16: "bf16",
  int64: "i64",
  int32: "i32",
  int16: "i16",
  int8: "i8",
  uint8: "u8",
  bool: "bool",
  complex64: "c64",
  complex128: "c128",
};

/** `f32[8, 24, 1]`. */
export function kind(dtype: string | null, shape: number[] | null): string {
  if (!dtype && !shape) return "";
  return `${DTYPES[dtype ?? ""] ?? dtype ?? "?"}${shape ? `[${shape.join(", ")}]` : ""}`;
}

export const lastPart = (name: string, mark = "/"): string => name.slice(name.lastIndexOf(mark) + 1);
export const fileName = (path: string): string => lastPart(path);

/** `/a/b/losses.py:9` → `losses.py:9`. */
export const shownPlace = (where: string): string => lastPart(where);

export function splitPlace(where: string): [string, number] | null {
  const at = where.lastIndexOf(":");
  const line = Number(where.slice(at + 1));
  return at > 0 && Number.isInteger(line) ? [where.slice(0, at), line] : null;
}

/** When, in the person's own time: `16 Nov 10:47`. */
export function moment(text: string, language: string): string {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return text;
  return date.toLocaleString(language === "zh" ? "zh-CN" : "en-GB", {
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
  });
}
