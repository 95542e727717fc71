// The keys, in a list.
import { useEffect, useRef } from "preact/hooks";
import { useTexts, type TextName } from "../texts";

const KEYS: [string[], TextName][] = [
  [["/"], "key_search"],
  [["[", "]"], "key_step"],
  [["{", "}"], "key_hit"],
  [["j", "k"], "key_list"],
  [["s", "h", "g", "t", "v", "e"], "key_views"],
  [["1", "2", "3", "4", "5"], "key_lists"],
  [["p", "n"], "key_path"],
  [["w"], "key_why"],
  [["l"], "key_latest"],
  [["d"], "key_theme"],
  [["space", "."], "key_control"],
  [["?"], "key_help"],
];

export function Help({ onClose }: { onClose: () => void }) {
  const t = useTexts();
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => box.current?.showModal(), []);
  return (
    <dialog ref={box} class="help" onClose={onClose} onClick={(e) => e.target === box.current && onClose()}>
      <h2>{t("keys")}</h2>
      <table>
        {KEYS.map(([keys, say]) => (
          <tr key={say}>
            <td>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </td>
            <td>{t(say)}</td>
          </tr>
        ))}
      </table>
      <button onClick={onClose}>{t("close")}</button>
    </dialog>
  );
}
