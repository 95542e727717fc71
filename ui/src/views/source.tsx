// The person's own files, with what each line computed beside it.
import { useMemo } from "preact/hooks";
import { useAnswer } from "../api/client";
import type {
  LineMark,
  LineTrends,
  NodeDetails,
  NodeLine,
  NodeList,
  SourceFile,
  SourceFiles,
  SourceText,
} from "../api/types";
import { count, fileName, short, value } from "../format";
import { CopyMenu } from "../parts/copy";
import { Empty, Waiting } from "../parts/empty";
import { Name } from "../parts/name";
import { BadCount, Figure, Range } from "../parts/number";
import { Spark } from "../parts/spark";
import { PhaseMark } from "../parts/phase";
import { VirtualList } from "../parts/virtual";
import { nodesCode } from "../python";
import { aboutRank, aboutStep, useLooking } from "../state/looking";
import { go, select } from "../state/place";
import { lastForSketches } from "../state/steps";
import { useTexts } from "../texts";
import { Code, pieces, type Piece } from "./python_text";

const ROW = 19;

export function SourceView() {
  const { place, run, moving } = useLooking();
  const files = useAnswer<SourceFiles>(aboutStep(place, "files"), moving);
  const node = useAnswer<NodeDetails>(
    place.node === null ? null : aboutStep(place, `nodes/${place.node}`, { pass: place.pass || null }),
    moving,
  );
  if (!files.data) return <Waiting answer={files} />;
  if (!files.data.files.length)
    return run?.lacks.code ? <p class="empty">{run.lacks.code}</p> : <Empty say="source_empty" />;
  const own =
    place.node !== null && node.data?.id === place.node
      ? node.data.stack.find((frame) => frame.user)
      : undefined;
  if (place.node !== null && !place.file && !node.data && !node.error) return <Waiting answer={node} />;
  const first = files.data.files.find((file) => file.hits > 0) ?? files.data.files[0]!;
  const file = place.file || own?.file || first.file;
  const line = place.line || (place.file ? 0 : own?.line) || 0;
  return (
    <div class="sourceview">
      <FileTabs files={files.data.files} shown={file} />
      <FileText file={file} line={line} />
      {line > 0 && <LineNodes file={file} line={line} />}
    </div>
  );
}

function FileTabs({ files, shown }: { files: SourceFile[]; shown: string }) {
  return (
    <div class="files" role="tablist">
      {files.map((file) => (
        <button
          key={file.file}
          role="tab"
          aria-selected={file.file === shown}
          class={file.file === shown ? "chip on" : "chip"}
          title={file.file}
          onClick={() => go({ file: file.file, line: file.worst ?? 0 })}
        >
          {file.name}
          {file.hits > 0 && <span class="hit" />}
          <BadCount nan={file.nan} inf={file.inf} />
        </button>
      ))}
    </div>
  );
}

function FileText({ file, line }: { file: string; line: number }) {
  const t = useTexts();
  const { place, moving, run } = useLooking();
  const answer = useAnswer<SourceText>(aboutStep(place, "source", { file }), moving);
  const source = answer.data?.file === file ? answer.data : undefined;
  const lines = useMemo(() => pieces(source?.text ?? []), [source?.text.length, source?.file]);
  const trends = useTrends(file);
  const beside = useMemo(() => marksOf(source), [source]);
  if (!source) return <Waiting answer={answer} />;
  const { marks, largest, numbers, hasGradients } = beside;
  return (
    <div class={hasGradients ? "srcfile" : "srcfile nograd"}>
      <div class="srchead">
        <span class="col lineno">{t("col_line")}</span>
        <span class="col ops">{t("col_ops")}</span>
        <span class="col range">{t("col_range")}</span>
        <span class="col over">{t("col_over")}</span>
        <span class="col grad" title="max |grad|">
          {t("col_gradient")}
        </span>
        <span class="col codecol">{t("col_code")}</span>
        <span class="grow" />
        <a class="quiet" href={`vscode://file${file}:${line || 1}`} title={t("open_editor")}>
          ↗
        </a>
        <CopyMenu json={() => source} python={() => nodesCode(run?.path ?? "last", "")} />
      </div>
      {source.text.length === 0 && <Empty say="no_source" />}
      <VirtualList
        count={numbers.length}
        height={ROW}
        show={line ? numbers.indexOf(line) : undefined}
        class="srctext"
        row={(index) => {
          const number = numbers[index]!;
          return (
            <Row
              key={number}
              file={file}
              number={number}
              mark={marks.get(number)}
              code={lines[number - 1]}
              on={number === line}
              largest={largest}
              trend={trends.get(number)}
            />
          );
        }}
      />
    </div>
  );
}

type Trend = { values: LineTrends["values"][number]; bad: number[] };

/** What each line did over the steps; only a sketch, so while training runs it is seldom renewed. */
function useTrends(file: string): ReadonlyMap<number, Trend> {
  const { place, run, strip } = useLooking();
  const last = lastForSketches(run, place.rank, strip);
  const wanted = (strip?.recorded.length ?? 0) > 1;
  const { data } = useAnswer<LineTrends>(
    wanted ? aboutRank(place, "source/trends", { file, last }) : null,
    false,
  );
  return useMemo(() => {
    const found = data?.file === file ? data : undefined;
    return new Map(
      found?.lines.map((line, index) => [line, { values: found.values[index]!, bad: found.bad[index]! }]),
    );
  }, [data, file]);
}

/** The marks by line, their largest number, and the lines that are shown. */
function marksOf(source: SourceText | undefined): {
  marks: Map<number, LineMark>;
  largest: number;
  numbers: number[];
  hasGradients: boolean;
} {
  const marks = source?.marks ?? [];
  return {
    marks: new Map(marks.map((mark) => [mark.line, mark])),
    largest: marks.reduce((most, mark) => Math.max(most, size(mark)), 0),
    hasGradients: marks.some((mark) => mark.backward > 0),
    numbers: source?.text.length ? source.text.map((_, index) => index + 1) : marks.map((mark) => mark.line),
  };
}

const size = (mark: LineMark): number => {
  const found = [value(mark.min), value(mark.max)].map((one) => Math.abs(one ?? 0)).filter(Number.isFinite);
  return Math.max(0, ...found);
};

interface RowProps {
  file: string;
  number: number;
  mark: LineMark | undefined;
  code: Piece[] | undefined;
  on: boolean;
  largest: number;
  trend: Trend | undefined;
}

function Row({ file, number, mark, code, on, largest, trend }: RowProps) {
  const all = mark ? Number(mark.nan) + Number(mark.inf) : 0;
  const bad = mark !== undefined && all > Number(mark.backward_bad);
  const style = ["srcrow", mark ? "marked" : "", on ? "on" : "", all > 0 ? "wrong" : ""].join(" ");
  const choose = (): void => {
    if (mark) select(mark.first_node, { file, line: number });
  };
  return (
    <div class={style} data-line={number} data-row={mark ? "" : undefined} onClick={choose}>
      <span class="col lineno">
        {mark && mark.hits > 0 && <span class="hit" />}
        {number}
      </span>
      <span
        class="col ops"
        title={mark ? `${mark.ops.join(", ")}\n${mark.forward} F, ${mark.backward} B` : ""}
      >
        {mark ? mark.nodes : ""}
      </span>
      <span class="col range">
        {mark && (
          <>
            {bad && <BadCount nan={mark.nan} inf={mark.inf} />}
            <Range low={mark.min} high={mark.max} />
            <Magnitude mark={mark} largest={largest} />
          </>
        )}
      </span>
      <span class="col over">{trend && <Spark of={trend.values} bad={trend.bad} />}</span>
      <span class="col grad">
        {mark &&
          mark.backward > 0 &&
          (Number(mark.backward_bad) ? (
            <BadCount nan={mark.nan} inf={mark.inf} />
          ) : (
            <Figure of={mark.backward_max} />
          ))}
      </span>
      <span class="codecol">
        {code ? <Code line={code} /> : mark ? <span class="faint">{mark.ops.join(", ")}</span> : null}
      </span>
    </div>
  );
}

/** How large the numbers of a line are beside those of the others, as a bar on a log scale. */
function Magnitude({ mark, largest }: { mark: LineMark; largest: number }) {
  const found = size(mark);
  if (!found || !largest) return null;
  const share = Math.max(0.04, 1 - Math.log10(largest / found) / 8);
  return <span class="bar" title={short(found)} style={{ width: `${Math.max(0, share) * 100}%` }} />;
}

function LineNodes({ file, line }: { file: string; line: number }) {
  const t = useTexts();
  const { place, moving } = useLooking();
  const text = `${file}:${line}`;
  const answer = useAnswer<NodeList>(aboutStep(place, "nodes", { text, count: 60 }), moving);
  const source = useAnswer<SourceText>(aboutStep(place, "source", { file }), moving);
  const own = source.data?.file === file ? source.data.marks.find((mark) => mark.line === line) : undefined;
  const nodes = answer.data?.nodes ?? [];
  if (!nodes.length) return null;
  const called = answer.data!.total - (own?.nodes ?? 0);
  return (
    <section class="linenodes">
      <header>
        <b>{t("line_nodes", `${fileName(file)}:${line}`)}</b>
        <span class="faint num">
          {count(own?.nodes ?? 0)}
          {called > 0 && ` · ${t("line_called", count(called))}`}
        </span>
        <span class="grow" />
        {answer.data!.total > nodes.length && (
          <button class="link" onClick={() => go({ list: "nodes", text: `${fileName(file)}:${line}` })}>
            {t("search_all", count(answer.data!.total))}
          </button>
        )}
      </header>
      <div class="scroll">
        {nodes.map((node) => (
          <LineNode key={node.id} node={node} on={node.id === place.node} file={file} line={line} />
        ))}
      </div>
    </section>
  );
}

function LineNode({ node, on, file, line }: { node: NodeLine; on: boolean; file: string; line: number }) {
  return (
    <div
      class={on ? "linenode chosen" : "linenode"}
      data-node={node.id}
      onClick={() => select(node.id, { file, line })}
    >
      <PhaseMark of={node.phase} />
      <Name of={node.name} tail={24} />
      <span class="grow" />
      {node.hits > 0 && <span class="hit" />}
      <BadCount nan={node.nan} inf={node.inf} />
      <Range low={node.min} high={node.max} />
    </div>
  );
}
