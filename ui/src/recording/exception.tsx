// The exception: what was raised, and the tensors of the frames it went through.
import type { FrameTensor, RaisedFrame, RecordedException } from "../api/types";
import { fileName, kind } from "../format";
import { BadCount, Figure, Range } from "../parts/number";
import { useRecordingTexts } from "./texts";

export function ExceptionPanel({ raised }: { raised: RecordedException }) {
  const r = useRecordingTexts();
  return (
    <section class="panel textpanel" data-panel="exception">
      <h3>{r("exception")}</h3>
      <p class="raisedtext">
        <b>{raised.type}</b> {raised.message}
        {raised.thread && <span class="faint"> {r("lane_thread", raised.thread)}</span>}
      </p>
      {raised.frames.map((frame, index) => (
        <Frame key={index} frame={frame} />
      ))}
      <details>
        <summary>{r("traceback")}</summary>
        <pre class="scroll">{raised.traceback}</pre>
      </details>
    </section>
  );
}

function Frame({ frame }: { frame: RaisedFrame }) {
  return (
    <div class="raisedframe">
      <p class="endsource">
        <a class="where" href={`vscode://file${frame.file}:${frame.line}`} title={`${frame.file}:${frame.line}`}>
          {fileName(frame.file)}:{frame.line}
        </a>
        <span class="faint">{frame.function}</span>
        {frame.code && <code>{frame.code}</code>}
      </p>
      {frame.tensors.length > 0 && (
        <table class="framevalues">
          <tbody>
            {frame.tensors.map((tensor) => (
              <Tensor key={tensor.name} of={tensor} />
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

function Tensor({ of }: { of: FrameTensor }) {
  const r = useRecordingTexts();
  return (
    <tr>
      <td class="name">{of.name}</td>
      <td class="num">{kind(of.dtype, of.shape)}</td>
      <td>
        {of.min === null ? <span class="faint">{of.device}</span> : <Range low={of.min} high={of.max} />}
      </td>
      <td>
        {of.mean !== null && (
          <>
            <span class="faint">{r("mean")}</span> <Figure of={of.mean} />
          </>
        )}
      </td>
      <td>
        <BadCount nan={of.nan} inf={of.inf} />
      </td>
    </tr>
  );
}
