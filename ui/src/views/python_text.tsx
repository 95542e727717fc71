// Python source with keywords, strings, numbers and comments told apart.
const KEYWORDS = new Set(
  "False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield".split(
    " ",
  ),
);
const TOKEN =
  /(#.*$)|("""|''')|([rbfuRBFU]{0,2}"(?:[^"\\]|\\.)*"|[rbfuRBFU]{0,2}'(?:[^'\\]|\\.)*')|\b(\d[\w.]*)|([A-Za-z_]\w*)/g;

export interface Piece {
  text: string;
  style: string;
}

/** The lines of a file, cut into pieces of one style each. */
export function pieces(lines: string[]): Piece[][] {
  let inside = "";
  return lines.map((line) => {
    const found: Piece[] = [];
    let at = 0;
    const put = (end: number, style: string): void => {
      if (end > at) found.push({ text: line.slice(at, end), style });
      at = end;
    };
    if (inside) {
      const end = line.indexOf(inside);
      if (end < 0) return [{ text: line, style: "string" }];
      put(end + 3, "string");
      inside = "";
    }
    TOKEN.lastIndex = at;
    for (let match = TOKEN.exec(line); match; match = TOKEN.exec(line)) {
      put(match.index, "");
      const [whole, comment, triple, text, number, word] = match;
      if (triple) {
        const end = line.indexOf(triple, match.index + 3);
        if (end < 0) {
          inside = triple;
          put(line.length, "string");
          break;
        }
        put(end + 3, "string");
        TOKEN.lastIndex = at;
        continue;
      }
      const style = comment
        ? "comment"
        : text
          ? "string"
          : number
            ? "number"
            : KEYWORDS.has(word ?? "")
              ? "keyword"
              : "";
      put(match.index + whole.length, style);
    }
    put(line.length, "");
    return found;
  });
}

export function Code({ line }: { line: Piece[] }) {
  return (
    <>
      {line.map((piece, index) =>
        piece.style ? (
          <span key={index} class={`py-${piece.style}`}>
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </>
  );
}
