// The texts about recordings, in English and Chinese.
import { useStore } from "../state/store";
import { language } from "../state/theme";

const TEXTS = {
  recording: ["recording", "运行记录"],
  how_it_ended: ["How it ended", "如何结束"],
  how_tip: ["What the recorder left of this training", "记录器留下的训练信息"],
  open_recording: ["How it ended", "如何结束"],
  open_run: ["Open the run", "打开此运行"],
  cause_exception: ["An exception", "异常"],
  cause_exit: ["Left with a code", "以退出码结束"],
  cause_killed: ["Killed from outside", "被外部终止"],
  cause_hang: ["It hung", "挂起"],
  cause_hit: ["Stopped by a hit", "因命中而停止"],
  cause_end: ["Ended normally", "正常结束"],
  cause_running: ["Still running", "仍在运行"],
  cause_unknown: ["Unknown", "未知"],
  "cause_out of memory": ["Out of memory", "内存不足"],
  "cause_device error": ["The device failed", "设备错误"],
  "cause_os._exit": ["os._exit", "os._exit"],
  of_ranks: ["rank {0} of {1}", "进程 {0}，共 {1} 个"],
  process: ["process {0}", "进程号 {0}"],
  in_step: ["step {0}", "第 {0} 步"],
  in_flight: ["in flight", "执行中"],
  raised: ["raised", "抛出异常"],
  finished: ["the last to finish", "最后完成"],
  state_finished: ["finished", "已完成"],
  state_raised: ["raised", "抛出异常"],
  state_flight: ["in flight: begun and not ended", "执行中：已开始，未结束"],
  inside: ["inside it {0}", "其内部 {0}"],
  no_operator: ["No operator ran.", "没有运行算子。"],
  silent: ["no operator for {0} before that", "此前 {0} 没有算子运行"],
  absent_ranks: ["no recording of ranks {0}: they ended normally, or are elsewhere", "没有进程 {0} 的记录：它们正常结束，或在别处"],
  waits_for: [
    "{0} number {1} of group {2}: rank {3} waits in it, rank {4} never entered",
    "组 {2} 的第 {1} 个 {0}：进程 {3} 在等待，进程 {4} 从未进入",
  ],
  default_group: ["default", "默认"],
  timeline: ["The last operators", "最后的算子"],
  timeline_tip: [
    "Wheel zooms, drag moves, a click chooses an operator, ← → go to its neighbours, double-click shows the last steps",
    "滚轮缩放，拖动移动，点击选择算子，← → 转到相邻算子，双击显示最后几步",
  ],
  timeline_empty: [
    "The operators of the last steps appear here when the recording has its ring.bin.",
    "记录中有 ring.bin 时，这里显示最后几步的算子。",
  ],
  last_steps: ["last two steps", "最后两步"],
  last_second: ["last second", "最后一秒"],
  everything: ["everything", "全部"],
  lane_main: ["main thread", "主线程"],
  lane_thread: ["thread {0}", "线程 {0}"],
  lane_stream: ["{0} stream {1}", "{0} 流 {1}"],
  lane_group: ["collectives of {0}", "{0} 的集合通信"],
  lanes_hidden: ["{0} more threads ran earlier and are not drawn", "另有 {0} 个较早的线程未绘出"],
  several: ["{0} operators", "{0} 个算子"],
  zoom_in: ["click to come closer", "点击放大"],
  never_entered: ["never entered", "从未进入"],
  gpu_known: ["the GPU is known to have run up to here", "已知 GPU 运行到此处"],
  operator: ["Operator", "算子"],
  operator_empty: ["Choose an operator on the timeline: all that was noted of it appears here.", "在时间线上选择算子，其全部信息显示在这里。"],
  name: ["name", "名称"],
  scope: ["scope", "作用域"],
  phase: ["phase", "阶段"],
  source: ["source", "源码"],
  called_from: ["called from", "调用自"],
  took: ["took", "耗时"],
  before_end: ["{0} before the end", "结束前 {0}"],
  started: ["began", "开始"],
  first_input: ["first input", "第一个输入"],
  elements: ["{0} elements, {1} of storage", "{0} 个元素，存储 {1}"],
  thread: ["thread", "线程"],
  group: ["collective", "集合通信"],
  group_number: ["number {0} of group {1}", "组 {1} 的第 {0} 个"],
  autograd: ["backward of", "反向自"],
  state: ["state", "状态"],
  before: ["← before", "← 前一个"],
  after: ["after →", "后一个 →"],
  show_numbers: ["Its numbers in the run", "运行中的数值"],
  steps: ["The last {0} steps", "最后 {0} 步"],
  steps_empty: ["Loss and memory of the last steps appear here.", "这里显示最后几步的损失和内存。"],
  loss: ["loss", "损失"],
  gradient_norm: ["gradient norm", "梯度范数"],
  largest: ["largest |x| of all values", "所有值中最大 |x|"],
  not_finite: ["values that are not finite", "非有限的值"],
  memory: ["memory", "内存"],
  rss: ["of the process", "进程"],
  allocated: ["allocated on the GPU", "GPU 已分配"],
  peak: ["peak on the GPU", "GPU 峰值"],
  learning_rate: ["learning rate", "学习率"],
  step_seconds: ["time of a step", "每步耗时"],
  under_way: ["step {0} was under way", "第 {0} 步正在进行"],
  batch: ["The last batch", "最后一批数据"],
  batch_of: ["The batch of step {0}", "第 {0} 步的数据"],
  batch_empty: ["The tensors of the last batch appear here.", "这里显示最后一批数据的张量。"],
  digest: ["digest", "摘要"],
  values: ["first values", "前几个值"],
  tensor: ["tensor", "张量"],
  shape: ["shape", "形状"],
  exception: ["The exception", "异常"],
  traceback: ["the whole traceback", "完整的回溯"],
  mean: ["mean", "均值"],
  last_list: ["The last {0} operators", "最后 {0} 个算子"],
  stacks: ["Stacks of all threads", "所有线程的调用栈"],
  stacks_empty: ["Python stacks are written where the process could still be asked for them; after kill -9 there are none.", "进程还能响应时会写出 Python 调用栈；kill -9 之后没有。"],
  program: ["Program", "程序"],
  command: ["command", "命令"],
  revision: ["git revision", "git 版本"],
  host: ["host", "主机"],
} as const satisfies Record<string, readonly [string, string]>;

export type RecordingText = keyof typeof TEXTS;
export type RecordingTexts = (name: RecordingText, ...parts: (string | number)[]) => string;

function text(name: RecordingText, ...parts: (string | number)[]): string {
  const shown: string = TEXTS[name][language.get() === "zh" ? 1 : 0];
  return shown.replace(/\{(\d)\}/g, (_, place: string) => String(parts[Number(place)] ?? ""));
}

export function useRecordingTexts(): RecordingTexts {
  useStore(language);
  return text;
}

/** A cause in words; signals have their own names. */
export function causeName(t: RecordingTexts, cause: string): string {
  const name = `cause_${cause}`;
  return name in TEXTS ? t(name as RecordingText) : cause;
}
