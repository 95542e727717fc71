// Written by scripts/api_types.py from the server's description of its API; do not edit.

/** The numbers of each place along one axis. */
export interface Along {
  axis: number;
  total: number;
  index: number[];
  numbers: Numbers[];
}

/** The part of one axis that is looked at. */
export interface AxisSpan {
  start: number;
  step: number;
  count: number;
  ranged: boolean;
}

/** A tensor of the last batch. */
export interface BatchTensor {
  name: string;
  dtype: string;
  shape: number[];
  digest: string;
  values: (number | "NaN" | "Infinity" | "-Infinity")[];
}

/** Extremes of steps that were left out of older history. */
export interface Between {
  first: number[];
  last: number[];
  min: (number | "NaN" | "Infinity" | "-Infinity")[];
  max: (number | "NaN" | "Infinity" | "-Infinity")[];
  nan: (number | string)[];
  inf: (number | string)[];
}

/** Some rows and columns of elements. */
export interface Block {
  top: number;
  left: number;
  rows: number;
  columns: number;
  elements: (number | "NaN" | "Infinity" | "-Infinity" | string)[];
  now: (number | "NaN" | "Infinity" | "-Infinity" | string)[];
  before: (number | "NaN" | "Infinity" | "-Infinity" | string)[];
}

/** A scope or a node drawn in a graph. */
export interface Box {
  id: string;
  kind: string;
  label: string;
  detail: string;
  phase: string;
  node: number | null;
  scope: string;
  nodes: number;
  nan: number | string;
  inf: number | string;
  max: number | "NaN" | "Infinity" | "-Infinity" | null;
  mean_abs: number | "NaN" | "Infinity" | "-Infinity" | null;
  zero_share: number | "NaN" | "Infinity" | "-Infinity" | null;
  node_class: string;
  hits: number;
  bad: boolean;
  reached: number;
  is_origin: boolean;
}

/** Operators in the order of time; all lists but `names` are equally long. */
export interface Boxes {
  sequence: number[];
  count: number[];
  start: number[];
  end: number[];
  busy: number[];
  phase: string[];
  state: string[];
  name: number[];
  names: string[];
}

/** The scopes and nodes directly in a scope. */
export interface Branch {
  scope: string;
  step: number | null;
  scopes: ScopeLine[];
  nodes: NodeLine[];
}

/** The distance between two values. */
export interface Compared {
  elements: number | string;
  differing: number | string;
  beyond: number | string;
  unlike: number | string;
  max_abs: number | "NaN" | "Infinity" | "-Infinity";
  mean_abs: number | "NaN" | "Infinity" | "-Infinity";
  cosine: number | "NaN" | "Infinity" | "-Infinity";
  index: number[] | null;
  row: number | null;
  column: number | null;
}

/** A condition that watchpoints can have. */
export interface ConditionFacts {
  abbr: string;
  id: string;
  target: string;
  summary: string;
  nonfinite: boolean;
  parameters: ParameterFacts[];
}

/** A node that reads an output. */
export interface Consumer {
  node: number;
  name: string;
  slot: number;
  of: number;
}

/** The node that a training holds at. */
export interface CurrentNode {
  step: number;
  call: number;
  node: number;
  name: string;
  op_type: string;
  phase: string;
  where: string;
  inputs: KeptSide[];
  outputs: KeptSide[];
}

/** Data that flows from one box to another. */
export interface Edge {
  start: string;
  end: string;
  label: string;
  values: number;
}

/** The traces that one process left. */
export interface EndedRank {
  place: number;
  rank: number;
  pid: number;
  host: string;
  cause: string;
  cause_text: string;
  step: number;
  silent_seconds: number | null;
  last_op: RecordedOperator | null;
  operators: RecordedOperator[];
  source: RecordedSource | null;
  completed: number | null;
  launched: number | null;
  steps: RecordedSteps;
  batch_step: number | null;
  batch: BatchTensor[];
  exception: RecordedException | null;
  stacks: string;
  command: string[];
  versions: Record<string, string>;
  git: string;
  has_ring: boolean;
}

/** The reason why a question could not be answered. */
export interface ErrorAnswer {
  error: string;
}

/** A number in an expression that something is compared with. */
export interface ExpressionThreshold {
  measured: string;
  sign: string;
  value: number | "NaN" | "Infinity" | "-Infinity";
  start: number;
  end: number;
}

/** The place of an element: in the value, and in the rows and columns it is shown as. */
export interface Extreme {
  index: number[];
  value: number | "NaN" | "Infinity" | "-Infinity" | string;
  row: number;
  column: number;
}

/** A tensor that a frame held when it raised. */
export interface FrameTensor {
  name: string;
  dtype: string;
  shape: number[];
  device: string;
  min: number | "NaN" | "Infinity" | "-Infinity" | null;
  max: number | "NaN" | "Infinity" | "-Infinity" | null;
  mean: number | "NaN" | "Infinity" | "-Infinity" | null;
  nan: number | string | null;
  inf: number | string | null;
}

/** One number per scope and step. */
export interface HeatMap {
  stat: string;
  scopes: string[];
  depths: number[];
  steps: number[];
  values: ((number | "NaN" | "Infinity" | "-Infinity" | null)[])[];
  bad: number[][];
}

/** The numbers of elements between edges. */
export interface Histogram {
  edges: (number | "NaN" | "Infinity" | "-Infinity")[];
  counts: (number | string)[];
  negative: (number | string)[];
  nan: number | string;
  posinf: number | string;
  neginf: number | string;
  zero: number | string;
}

/** Hits of one kind. */
export interface HitGroup {
  condition: string;
  label: string;
  count: number;
  first_step: number;
  last_step: number;
  message: string;
  node: number | null;
  name: string;
  where: string;
}

/** Hits of the same kind together, a page of them. */
export interface HitGroups {
  total: number;
  hits: number;
  groups: HitHistory[];
}

/** The same with how it went on. */
export interface HitHistory {
  condition: string;
  label: string;
  count: number;
  first_step: number;
  last_step: number;
  message: string;
  node: number | null;
  name: string;
  where: string;
  watchpoint: number;
  parameter: string;
  params: Record<string, number | "NaN" | "Infinity" | "-Infinity">;
  steps: number[];
  actual: Record<string, (number | "NaN" | "Infinity" | "-Infinity" | null)[]>;
}

/** One hit of a watchpoint. */
export interface HitLine {
  step: number;
  rank: number;
  watchpoint: number;
  label: string;
  condition: string;
  message: string;
  params: Record<string, number | "NaN" | "Infinity" | "-Infinity">;
  actual: Record<string, number | "NaN" | "Infinity" | "-Infinity">;
  node: number | null;
  name: string;
  io: string | null;
  slot: number;
  call: number;
  phase: string;
  parameter: string;
  where: string;
  has_verdict: boolean;
}

/** Hits in the order of execution, a page of them. */
export interface Hits {
  total: number;
  hits: HitLine[];
}

/** A value that went into a node or came out of it. */
export interface KeptSide {
  slot: number;
  dtype: string;
  shape: number[];
}

/** The hits of one watchpoint over the steps. */
export interface Lane {
  watchpoint: number;
  label: string;
  condition: string;
  steps: number[];
  counts: number[];
}

/** The layout of the elements that are looked at as rows and columns, one after the other. */
export interface Layout {
  axes: AxisSpan[];
  shape: number[];
  dtype: string;
  rows: number;
  columns: number;
}

/** The marks beside a line of source. */
export interface LineMark {
  line: number;
  nodes: number;
  forward: number;
  backward: number;
  other: number;
  ops: string[];
  min: number | "NaN" | "Infinity" | "-Infinity" | null;
  max: number | "NaN" | "Infinity" | "-Infinity" | null;
  mean_abs: number | "NaN" | "Infinity" | "-Infinity" | null;
  nan: number | string;
  inf: number | string;
  backward_max: number | "NaN" | "Infinity" | "-Infinity" | null;
  backward_bad: number | string;
  hits: number;
  first_node: number;
}

/** The values that the lines of a file computed over steps; one list for each of `lines`. */
export interface LineTrends {
  file: string;
  steps: number[];
  lines: number[];
  values: ((number | "NaN" | "Infinity" | "-Infinity" | null)[])[];
  bad: number[][];
}

/** The state of a connected rank. */
export interface LiveRank {
  rank: number;
  state: string;
  reason: string;
  step: number;
  node: Standing | null;
  hit: Record<string, unknown> | null;
  keep: string;
  kept: string[];
  dropped: number;
  pid: number;
  host: string;
}

/** The state of the connected ranks of a run. */
export interface LiveState {
  live: boolean;
  watchers: number;
  ranks: LiveRank[];
}

/** A collective that some ranks wait in and others never entered. */
export interface MissedCollective {
  group: string;
  number: number;
  name: string;
  waiting: number[];
  missing: number[];
  source: RecordedSource | null;
}

/** A collective that this rank never entered. */
export interface NeverEntered {
  group: string;
  number: number;
  name: string;
  at: number;
}

/** Everything about one node, in a step. */
export interface NodeDetails {
  id: number;
  name: string;
  op: string;
  op_type: string;
  scope: string;
  module_class: string;
  phase: string;
  graph: number;
  forward: number | null;
  backward: number[];
  parameter: string;
  gradient_of: string;
  arguments: Record<string, string>;
  step: number | null;
  passes: number;
  pass_number: number;
  stack: StackLine[];
  inputs: Side[];
  outputs: Side[];
  consumers: Consumer[];
  hits: HitLine[];
}

/** A node in a list. */
export interface NodeLine {
  id: number;
  name: string;
  op_type: string;
  scope: string;
  phase: string;
  graph: number;
  where: string;
  line: number;
  file: string;
  parameter: string;
  gradient_of: string;
  min: number | "NaN" | "Infinity" | "-Infinity" | null;
  max: number | "NaN" | "Infinity" | "-Infinity" | null;
  nan: number | string;
  inf: number | string;
  hits: number;
}

/** Nodes that match, a page of them. */
export interface NodeList {
  total: number;
  step: number | null;
  nodes: NodeLine[];
}

/** The way of data from one operator to another. */
export interface NodePath {
  start: number;
  end: number;
  nodes: NodeLine[];
  total: number;
  why: string;
  boxes: string[];
  edges: Passage[];
}

/** NaN or Inf that did no harm; it is no hit. */
export interface NoteLine {
  kind: string;
  step: number;
  message: string;
  node: number | null;
  name: string;
  slot: number;
  where: string;
}

/** A page of the notes on what did no harm, in the order they were made. */
export interface Notes {
  total: number;
  notes: NoteLine[];
}

/** The statistics of one value; see docs/statistics.md. */
export interface Numbers {
  count: number | string;
  min: number | "NaN" | "Infinity" | "-Infinity" | null;
  max: number | "NaN" | "Infinity" | "-Infinity" | null;
  mean: number | "NaN" | "Infinity" | "-Infinity" | null;
  mean_abs: number | "NaN" | "Infinity" | "-Infinity" | null;
  l2: number | "NaN" | "Infinity" | "-Infinity" | null;
  std: number | "NaN" | "Infinity" | "-Infinity" | null;
  nan: number | string;
  posinf: number | string;
  neginf: number | string;
  zero: number | string;
  negative: number | string;
  positive: number | string;
}

/** The same, with what the ring alone knows. */
export interface OperatorAt {
  sequence: number;
  name: string;
  op: string;
  op_type: string;
  inside: string;
  scope: string;
  phase: string;
  step: number;
  state: string;
  thread: number;
  device: string;
  stream: number;
  started: number;
  seconds: number | null;
  dtype: string;
  numel: number;
  group: string;
  collective: number;
  source: RecordedSource | null;
  place: number;
  rank: number;
  bytes: number | string;
  address: string;
  autograd: string;
  node: number | null;
  before: number | null;
  after: number | null;
}

/** An order to a training. */
export interface Order {
  verb: string;
  count?: number;
  node?: string;
}

/** A parameter of a condition. */
export interface ParameterFacts {
  name: string;
  words: string;
  unit: string;
  low: number | null;
  high: number | null;
  default: number | "NaN" | "Infinity" | "-Infinity" | null;
  allowed: string;
  is_threshold: boolean;
}

/** A path goes from one box to another. */
export interface Passage {
  start: string;
  end: string;
}

/** The pictures that a value can be shown as. */
export interface PictureKind {
  kind: string;
  count: number;
  height: number;
  width: number;
  colours: number;
}

/** Some of the pictures of a value, each row by row. */
export interface Pictures {
  kind: string;
  count: number;
  height: number;
  width: number;
  colours: number;
  first: number;
  shown: number;
  rows: number;
  columns: number;
  elements: (number | "NaN" | "Infinity" | "-Infinity" | string)[];
}

/** The places of the first of these elements; nothing where there is none. */
export interface Places {
  min: Extreme | null;
  max: Extreme | null;
  nan: Extreme | null;
  posinf: Extreme | null;
  neginf: Extreme | null;
}

/** The findings of a watchpoint in the steps recorded last. */
export interface Preview {
  steps: number;
  first: number | null;
  last: number | null;
  hits: number;
  steps_hit: number;
  by_step: number[][];
  examples: HitLine[];
  values: number;
  unchecked: Record<string, unknown>[];
}

/** A frame of the user's code that an exception went through. */
export interface RaisedFrame {
  file: string;
  line: number;
  function: string;
  code: string;
  tensors: FrameTensor[];
}

/** A difference between ranks that should not be. */
export interface RankDifference {
  kind: string;
  step: number;
  rank: number;
  node: number | null;
  name: string;
  parameter: string;
  where: string;
  what: string;
}

/** The state of a rank beside the others. */
export interface RankRow {
  rank: number;
  state: string;
  last_step: number | null;
  loss: number | "NaN" | "Infinity" | "-Infinity" | null;
  gradient_norm: number | "NaN" | "Infinity" | "-Infinity" | null;
  hits: number;
  nodes: number;
}

/** The state of a process of a run, or how it ended. */
export interface RankState {
  rank: number;
  state: string;
  words: string;
  pid: number | null;
  host: string;
  first_step: number | null;
  last_step: number | null;
  nodes: number;
  hits: number;
}

/** One rank on the timeline. */
export interface RankTimeline {
  place: number;
  rank: number;
  lanes: TimelineLane[];
  hidden: number;
  ended: number;
  completed: number | null;
  steps: StepMark[];
  never: NeverEntered[];
}

/** All ranks, and the first difference of each kind, the earliest first. */
export interface RanksCompared {
  ranks: RankRow[];
  differences: RankDifference[];
  steps: number;
}

/** The findings of watchpoints in one step. */
export interface Recheck {
  step: number;
  hits: Record<string, unknown>[];
  unchecked: Record<string, unknown>[];
  notes: string[];
  values: number;
  unchecked_values: number;
}

/** The exception that was raised. */
export interface RecordedException {
  type: string;
  message: string;
  thread: string;
  traceback: string;
  frames: RaisedFrame[];
}

/** One call of an operator, as the recorder noted it. */
export interface RecordedOperator {
  sequence: number;
  name: string;
  op: string;
  op_type: string;
  inside: string;
  scope: string;
  phase: string;
  step: number;
  state: string;
  thread: number;
  device: string;
  stream: number;
  started: number;
  seconds: number | null;
  dtype: string;
  numel: number;
  group: string;
  collective: number;
  source: RecordedSource | null;
}

/** A line of the user's code. */
export interface RecordedSource {
  file: string;
  line: number;
  function: string;
  code: string;
  called_from: string[];
}

/** The latest steps; all lists are equally long. */
export interface RecordedSteps {
  step: number[];
  loss: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  lr: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  gradient_norm: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  seconds: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  rss: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  allocated: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  peak: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  largest: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  not_finite: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
}

/** A recording: how a training ended. */
export interface RecordingFacts {
  id: string;
  name: string;
  path: string;
  run: string;
  alive: boolean;
  cause: string;
  cause_text: string;
  first: number | null;
  world_size: number;
  absent: number[];
  missing: MissedCollective[];
  ranks: EndedRank[];
}

/** A tensor in the diagram of relations. */
export interface RelatedValue {
  id: string;
  kind: string;
  node: number;
  io: string;
  slot: number;
  label: string;
  op_type: string;
  scope: string;
  where: string;
  level: number;
  dtype: string | null;
  shape: number[] | null;
  numbers: Numbers | null;
  conditions: string[];
}

/** A tensor that another is computed from. */
export interface Relation {
  start: string;
  end: string;
}

/** The values that a value was computed from, and that it feeds. */
export interface Relations {
  centre: string;
  step: number | null;
  values: RelatedValue[];
  edges: Relation[];
  hidden: number;
}

/** A run or a dump. */
export interface RunDetails {
  id: string;
  name: string;
  path: string;
  kind: string;
  state: string;
  started: string;
  script: string;
  command: string[];
  versions: Record<string, string>;
  world_size: number;
  ranks: RankState[];
  lacks: Record<string, string>;
  live: boolean;
  recording: boolean;
}

/** A run or a dump in a list. */
export interface RunLine {
  id: string;
  name: string;
  kind: string;
  state: string;
  started: string;
  script: string;
  ranks: number;
  steps: number;
  loss: number | "NaN" | "Infinity" | "-Infinity" | null;
  size: number | string;
  live: boolean;
  recording: boolean;
}

/** One scope, drawn: what is directly in it, and its surroundings. */
export interface ScopeGraph {
  scope: string;
  step: number | null;
  boxes: Box[];
  edges: Edge[];
  hidden: number;
}

/** A scope in the tree. */
export interface ScopeLine {
  name: string;
  label: string;
  scopes: number;
  nodes: number;
  parameters: number;
  rows: number;
  min: number | "NaN" | "Infinity" | "-Infinity" | null;
  max: number | "NaN" | "Infinity" | "-Infinity" | null;
  nan: number | string;
  inf: number | string;
  hits: number;
}

/** The values a watchpoint looks at, of all that it could. */
export interface Selected {
  about: string;
  total: number;
  selected: number;
  muted: number;
  found: number;
  scopes: SelectedScope[];
  values: SelectedValue[];
}

/** The share of a scope that a watchpoint looks at. */
export interface SelectedScope {
  name: string;
  label: string;
  total: number;
  selected: number;
}

/** A value that a watchpoint might look at. */
export interface SelectedValue {
  node: number;
  name: string;
  parameter: string;
  on: boolean;
}

/** One value over the steps. */
export interface Series {
  steps: number[];
  passes: number[];
  numbers: Record<string, (number | "NaN" | "Infinity" | "-Infinity" | null)[]>;
  between: Between;
}

/** An input or an output of a node in a step. */
export interface Side {
  io: string;
  slot: number;
  address: string;
  dtype: string | null;
  shape: number[] | null;
  source: string;
  source_node: number | null;
  source_slot: number | null;
  parameter: string;
  uninitialised: boolean;
  numbers: Numbers | null;
  extra: Record<string, number | "NaN" | "Infinity" | "-Infinity" | null>;
  saved: boolean;
  elements: (number | "NaN" | "Infinity" | "-Infinity")[] | null;
}

/** Elements of a value. */
export interface Slice {
  shape: number[];
  elements: (number | "NaN" | "Infinity" | "-Infinity" | string)[];
}

/** A file of the user's that operators came from. */
export interface SourceFile {
  file: string;
  name: string;
  nodes: number;
  lines: number;
  nan: number | string;
  inf: number | string;
  hits: number;
  worst: number | null;
}

/** The files, in the order in which they were first seen. */
export interface SourceFiles {
  step: number | null;
  files: SourceFile[];
}

/** A file with what its lines computed in a step. */
export interface SourceText {
  file: string;
  step: number | null;
  text: string[];
  marks: LineMark[];
}

/** The spread of the elements. */
export interface Spread {
  quantiles: ((number | "NaN" | "Infinity" | "-Infinity" | string)[])[];
  sampled: boolean;
  clip: number | "NaN" | "Infinity" | "-Infinity";
  faint: number | "NaN" | "Infinity" | "-Infinity";
}

/** A frame with its code and a few lines around it. */
export interface StackLine {
  file: string;
  line: number;
  function: string;
  user: boolean;
  code: string | null;
  around: string[];
  first: number;
}

/** The node that a training holds at. */
export interface Standing {
  node: number;
  name: string;
  call: number;
  where: string;
}

/** The numbers of the elements that are looked at. */
export interface Statistics {
  quantiles: ((number | "NaN" | "Infinity" | "-Infinity" | string)[])[];
  sampled: boolean;
  clip: number | "NaN" | "Infinity" | "-Infinity";
  faint: number | "NaN" | "Infinity" | "-Infinity";
  numbers: Numbers;
}

/** One step in the table of steps. */
export interface StepLine {
  step: number;
  losses: (number | "NaN" | "Infinity" | "-Infinity")[];
  gradient_norm: number | "NaN" | "Infinity" | "-Infinity" | null;
  seconds: number | "NaN" | "Infinity" | "-Infinity" | null;
  operators: number;
  passes: number;
  skipped: boolean;
  complete: boolean;
  recorded: boolean;
  hits: number;
}

/** The beginning of a step. */
export interface StepMark {
  step: number;
  at: number;
}

/** Steps, the latest first. */
export interface Steps {
  total: number;
  steps: StepLine[];
}

/** A training over all its steps; all lists but `lanes` and `recorded` are as long as `steps`. */
export interface Strip {
  steps: number[];
  loss: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  loss_low: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  loss_high: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  gradient_norm: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  seconds: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  operators: number[];
  passes: number[];
  lanes: Lane[];
  recorded: number[];
  pending: number;
}

/** The number that a threshold is compared with, over the steps recorded last. */
export interface ThresholdHistory {
  parameter: string;
  above: boolean;
  steps: number[];
  low: (number | "NaN" | "Infinity" | "-Infinity")[];
  high: (number | "NaN" | "Infinity" | "-Infinity")[];
  total: number;
  sample: (number | "NaN" | "Infinity" | "-Infinity")[];
  suggested: number | "NaN" | "Infinity" | "-Infinity" | null;
}

/** A selection after something was ticked or unticked. */
export interface Ticked {
  select: Record<string, string>;
  mute: string[];
}

/** A value reduced to a picture: the extremes of each cell, to seven digits. */
export interface Tile {
  rows: number;
  columns: number;
  cell: number[];
  top: number;
  left: number;
  low: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  high: (number | "NaN" | "Infinity" | "-Infinity" | null)[];
  nan: number[];
  posinf: number[];
  neginf: number[];
}

/** Operators of all ranks on one clock, in nanoseconds since the first that is known. */
export interface Timeline {
  first: number;
  last: number;
  start: number;
  end: number;
  began: number;
  ranks: RankTimeline[];
}

/** The operators of a thread, of a stream, or the collectives of a group. */
export interface TimelineLane {
  kind: string;
  thread: number;
  device: string;
  stream: number;
  group: string;
  operators: number;
  boxes: Boxes;
}

/** A value: what is known of it without looking at its elements one by one. */
export interface ValueFacts {
  address: string;
  node: number;
  name: string;
  op_type: string;
  io: string;
  slot: number;
  rank: number;
  step: number | null;
  dtype: string | null;
  shape: number[] | null;
  numbers: Numbers | null;
  held: string;
  why: string;
  previous: number | null;
  ranks: number[];
  pictures: PictureKind | null;
  parameter: string;
  source_node: number | null;
  source_slot: number | null;
  hits: ValueHit[];
}

/** A hit on a value, what its condition means, and what helps. */
export interface ValueHit {
  hit: HitLine;
  summary: string;
  advice: string;
}

/** The verdict: what is wrong, or that nothing is. */
export interface Verdict {
  sentence: string;
  story: Record<string, unknown> | null;
  text: string[];
  step: number | null;
  hits: number;
  notes: number;
  groups: HitGroup[];
  state: string;
}
