// What the colours of the heat map mean.
import type { ComponentChildren } from "preact";
import type { Tile } from "../api/types";
import { value } from "../format";
import { useStore } from "../state/store";
import { shownTheme } from "../state/theme";
import { css, shade, ticks, type Scale } from "./scale";
import { useTensorTexts } from "./texts";

interface Props {
  scale: Scale;
  sampled: boolean;
  tile: Tile | undefined;
  children: ComponentChildren;
}

export function Legend({ scale, sampled, tile, children }: Props) {
  const t = useTensorTexts();
  const dark = useStore(shownTheme) === "dark";
  const isOneSided = tile !== undefined && !tile.low.some((one) => (value(one) ?? 0) < 0);
  const start = isOneSided ? 0 : -1;
  const stops = Array.from({ length: 13 }, (_, index) => start + ((1 - start) * index) / 12);
  const bad = {
    NaN: tile?.nan.some(Boolean),
    "+Inf": tile?.posinf.some(Boolean),
    "−Inf": tile?.neginf.some(Boolean),
  };
  return (
    <div class="tensorlegend">
      <span
        class="ramp"
        style={{ background: `linear-gradient(90deg, ${stops.map((s) => css(shade(s, dark))).join(",")})` }}
      >
        {ticks(scale, isOneSided).map(({ share, label }) => (
          <span key={label} class="num" style={{ left: `${((share - start) / (1 - start)) * 100}%` }}>
            {label}
          </span>
        ))}
      </span>
      <span class="swatch" title={sampled ? t("sampled") : undefined}>
        <i class="dot" /> {t("clipped")}
      </span>
      {Object.entries(bad)
        .filter(([, found]) => found)
        .map(([name]) => (
          <span
            key={name}
            class={name === "NaN" ? "swatch nan" : name === "+Inf" ? "swatch inf up" : "swatch inf"}
          >
            <i /> {name}
          </span>
        ))}
      <span class="grow" />
      {children}
    </div>
  );
}
