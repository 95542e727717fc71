// What a panel shows, as Python that gives the same.

const quoted = (text: string): string => JSON.stringify(text);

export function openLine(path: string): string {
  return `import opscope\n\nrun = opscope.open(${quoted(path)})\n`;
}

export function nodeCode(path: string, name: string, step: number | null): string {
  return (
    openLine(path) +
    `values = run.select_values(${quoted(name)}${step === null ? "" : `, steps=[${step}]`})\n` +
    `for value in values:\n    print(value.name, value.step, value.dtype, value.shape, value.stats())\n`
  );
}

export function nodesCode(path: string, text: string): string {
  return (
    openLine(path) +
    `for node in run.select_nodes(${quoted(text)}):\n    print(node.name, node.stack.where)\n`
  );
}

export function pathCode(path: string, names: string[]): string {
  return (
    openLine(path) +
    `path = [\n${names.map((name) => `    ${quoted(name)},\n`).join("")}]\n` +
    `nodes = {node.name: node for node in run.select_nodes("")}\n` +
    `for name in path:\n    print(name, nodes[name].stack.where)\n`
  );
}

export function hitsCode(path: string): string {
  return openLine(path) + `for hit in run.hits():\n    print(hit.data["step"], hit.data["message"])\n`;
}

export function stepsCode(path: string, rank: number): string {
  return (
    openLine(path) +
    `for step in run.recording.rank(${rank}).steps:\n    print(step.step, [loss.value for loss in step.losses])\n`
  );
}

export function scopesCode(path: string, rank: number, step: number | null): string {
  return (
    openLine(path) +
    `tree = run.scopes(${rank})\n` +
    `numbers = run.scope_numbers(${step ?? "None"}, ${rank})\n` +
    `for name, largest in zip(tree.names, numbers.max):\n    print(name, largest)\n`
  );
}

export function watchCode(path: string, points: unknown[]): string {
  const text = quoted(JSON.stringify({ watchpoints: points }));
  return (
    `import json\n\n${openLine(path)}` +
    `from opscope.judge.watch_set import from_json\n\n` +
    `watch = from_json(json.loads(${text}), "page")\n` +
    `for hit in run.check(watch).hits:\n    print(hit.step, hit.where, hit.message)\n`
  );
}
