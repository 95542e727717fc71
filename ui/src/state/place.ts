// Where the person is: the address says all of it, so a link shows what its sender saw.
import { store, useStore } from "./store";

export const VIEWS = ["source", "heat", "graph", "steps", "value", "edit", "ranks"] as const;
export const LISTS = ["model", "nodes", "lines", "hits", "watch"] as const;
export type ViewName = (typeof VIEWS)[number];
export type ListName = (typeof LISTS)[number];

export interface Place {
  run: string;
  rank: number;
  /** The step looked at; null follows the latest. */
  step: number | null;
  pass: number;
  node: number | null;
  view: ViewName;
  list: ListName;
  /** A file and line chosen by hand; otherwise those of the node. */
  file: string;
  line: number;
  /** A scope chosen by hand; otherwise that of the node. */
  scope: string | null;
  /** What the node list is searched for. */
  text: string;
  phase: string;
  kind: string;
  op: string;
  /** Of the lists of nodes and hits: the graph. */
  graph: string;
  /** Of the hit list: the watchpoint, 0 for all; whether each hit stands for itself, and of this step only. */
  point: number;
  flat: boolean;
  only: boolean;
  /** The statistic of the heat map, its depth, and the steps it shows. */
  stat: string;
  depth: number;
  /** The scope whose rows it shows, and whether each row has colours of its own. */
  within: string;
  each: boolean;
  from: number | null;
  to: number | null;
  backward: boolean;
  colour: string;
  /** Two operators between which the graph shows the way of data: "12-87". */
  path: string;
  /** The value that is open: "output:0". */
  value: string;
  index: string;
  /** How it is looked at; see tensor/state.ts. */
  tensor: string;
  why: boolean;
  /** Whether details show the numbers of the step before beside those of this one. */
  before: boolean;
  /** The watchpoint that is changed; 0 for none or a new one. */
  watchpoint: number;
}

const START: Place = {
  run: "",
  rank: 0,
  step: null,
  pass: 0,
  node: null,
  view: "source",
  list: "model",
  file: "",
  line: 0,
  scope: null,
  text: "",
  phase: "",
  kind: "",
  op: "",
  graph: "",
  point: 0,
  flat: false,
  only: false,
  stat: "max",
  depth: 4,
  within: "",
  each: false,
  from: null,
  to: null,
  backward: false,
  colour: "phase",
  path: "",
  value: "",
  index: "",
  tensor: "",
  why: false,
  before: false,
  watchpoint: 0,
};

/** A place as an address. */
export function address(place: Place): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(place)) {
    const usual = START[key as keyof Place];
    if (key !== "run" && value !== usual && value !== null) query.set(key, String(value));
  }
  const path = place.run ? `/run/${encodeURIComponent(place.run)}` : "/";
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** An address as a place; what makes no sense is left out. */
export function placeAt(path: string, search: string): Place {
  const place: Record<string, unknown> = { ...START };
  const match = /^\/run\/([^/]+)/.exec(path);
  if (match) place.run = decoded(match[1]!);
  for (const [key, text] of new URLSearchParams(search)) {
    if (!(key in START) || key === "run") continue;
    const usual = START[key as keyof Place];
    if (["step", "node", "from", "to", "rank", "pass", "line", "depth", "watchpoint", "point"].includes(key)) {
      const number = Number(text);
      if (Number.isInteger(number) && number >= 0) place[key] = number;
    } else if (typeof usual === "boolean") place[key] = text === "true";
    else place[key] = text;
  }
  if (!VIEWS.includes(place.view as ViewName)) place.view = START.view;
  if (!LISTS.includes(place.list as ListName)) place.list = START.list;
  return place as unknown as Place;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const current = store<Place>(placeAt(location.pathname, location.search));
window.addEventListener("popstate", () => {
  current.set(placeAt(location.pathname, location.search));
});

export const usePlace = (): Place => useStore(current);
export const here = (): Place => current.get();

/** Move; back returns, unless this replaces where the person was. */
export function go(change: Partial<Place>, replace = false): void {
  const next = { ...current.get(), ...change };
  const link = address(next);
  if (link !== location.pathname + location.search) {
    history[replace ? "replaceState" : "pushState"](null, "", link);
  }
  current.set(next);
}

/** Choose a node: every view shows where it is. */
export function select(node: number, change: Partial<Place> = {}): void {
  go({ node, file: "", line: 0, scope: null, pass: 0, ...change });
}

/** The operators that a path is between, if there is one. */
export function pathEnds(place: Place): [number, number] | null {
  const match = /^(\d{1,9})-(\d{1,9})$/.exec(place.path);
  return match && [Number(match[1]), Number(match[2])];
}

/** Show the way of data between two operators. */
export function showPath(start: number, end: number): void {
  go({ path: `${start}-${end}`, view: "graph" });
}

/** Search the node list, without its filters. */
export function listNodes(text: string): void {
  go({ list: "nodes", text: text.slice(-1000), phase: "", kind: "", op: "", graph: "" });
}

/** Another run, from its beginning. */
export function openRun(run: string): void {
  go({ ...START, run });
}

export const linkTo = (change: Partial<Place>): string => address({ ...current.get(), ...change });
