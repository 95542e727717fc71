// The two choices that hold for every page: light or dark, and the language.
import { useStore } from "../state/store";
import { language, shownTheme, switchLanguage, switchTheme } from "../state/theme";
import { useTexts } from "../texts";

export function Switches() {
  const t = useTexts();
  const dark = useStore(shownTheme) === "dark";
  const other = useStore(language) === "en" ? "zh" : "en";
  return (
    <>
      <button class="quiet" onClick={switchTheme} title={t("theme")} aria-label={t("theme")}>
        {dark ? "☀" : "☾"}
      </button>
      <button class="quiet" onClick={switchLanguage} lang={other}>
        {t("language")}
      </button>
    </>
  );
}
