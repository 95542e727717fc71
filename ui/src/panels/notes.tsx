// NaN and Inf that did no harm: batches that the script skipped, values that were masked.
import { useAnswer } from "../api/client";
import type { Notes } from "../api/types";
import { count, shownPlace } from "../format";
import { aboutRank, useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { named, useTexts } from "../texts";

export function NoteList() {
  const t = useTexts();
  const { place, verdict } = useLooking();
  const answer = useAnswer<Notes>(verdict?.notes ? aboutRank(place, "notes") : null);
  if (!verdict?.notes) return null;
  const notes = answer.data?.notes ?? [];
  return (
    <details class="notes" open={verdict.hits === 0}>
      <summary title={t("v_noted_tip")}>
        {t("notes")} <span class="faint">{count(verdict.notes)}</span>
      </summary>
      {notes.map((note, index) => (
        <button
          key={index}
          class="hitline"
          title={`${note.message}\n${note.name}\n${note.where}`}
          onClick={() => (note.node === null ? go({ step: note.step }) : select(note.node, { step: note.step }))}
        >
          <span class="chip">{named("note", note.kind)}</span> {t("step")} {note.step} · {note.message}{" "}
          <span class="where">{shownPlace(note.where)}</span>
        </button>
      ))}
      {verdict.notes > notes.length && <p class="faint">{t("more", verdict.notes - notes.length)}</p>}
    </details>
  );
}
