// Light or dark, and the language: this browser's choice, kept in it.
import { store } from "./store";

export type Theme = "auto" | "light" | "dark";
export type Language = "en" | "zh";

function kept(key: string): string | null {
  try {
    return localStorage.getItem(`opscope.${key}`);
  } catch {
    return null;
  }
}

export function keep(key: string, value: string): void {
  try {
    localStorage.setItem(`opscope.${key}`, value);
  } catch {
    // A browser that keeps nothing shows its default next time.
  }
}

export const keptNumber = (key: string, usual: number): number => {
  const text = kept(key);
  const value = text === null ? NaN : Number(text);
  return Number.isFinite(value) ? value : usual;
};

const first = kept("theme");
export const theme = store<Theme>(first === "light" || first === "dark" ? first : "auto");
const dark = matchMedia("(prefers-color-scheme: dark)");
/** What is shown now: canvases draw again when it changes. */
export const shownTheme = store<"light" | "dark">("light");

export function applyTheme(): void {
  const chosen = theme.get();
  const shown = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
  document.documentElement.dataset.theme = shown;
  shownTheme.set(shown);
}

export function switchTheme(): void {
  theme.set(shownTheme.get() === "dark" ? "light" : "dark");
  keep("theme", theme.get());
  applyTheme();
}

dark.addEventListener("change", applyTheme);

const spoken = kept("language") ?? navigator.language;
export const language = store<Language>(spoken.toLowerCase().startsWith("zh") ? "zh" : "en");

export function switchLanguage(): void {
  language.set(language.get() === "en" ? "zh" : "en");
  keep("language", language.get());
}

/** A colour of the theme that is shown. */
export const colour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
