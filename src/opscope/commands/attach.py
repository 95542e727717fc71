"""Look into a connected training from a terminal, in the manner of gdb.

  opscope attach RUN [--server HOST:PORT]

As long as it is attached, a hit holds training instead of ending it. `help` lists the commands; Tab
completes the names of nodes.
"""

from __future__ import annotations

import argparse
import cmd
import contextlib
import json
import sys
import threading
from typing import Any

from opscope.commands.live_words import (
    add_target_arguments,
    keep_order,
    print_current,
    print_fields,
    print_recheck,
    print_value,
    standing,
    value_order,
    watch_order,
    whole,
)
from opscope.commands.output import print_hits, print_json, print_line
from opscope.commands.server_client import ServerClient, server_for
from opscope.errors import OpscopeError
from opscope.messages import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `opscope attach`."""
    add_target_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Read commands until the end of the input."""
    with ServerClient(server_for(args.server, args.run)) as client:
        number = client.find_run(args.run)
        shell = Shell(client, number, args.rank or 0, args.json)
        shell.start()
        shell.cmdloop()
    return 0


class Shell(cmd.Cmd):
    """The commands; each is a method `do_…` whose docstring is its help."""

    prompt = "(opscope) "

    def __init__(self, client: ServerClient, run: str, rank: int, as_json: bool) -> None:
        super().__init__()
        if not sys.stdin.isatty():
            self.use_rawinput, self.prompt = False, ""
        self._client = client
        self._place = f"/runs/{run}"
        self._rank = rank
        self._json = as_json
        self._last = ""
        self.intro = f"attached to {run}; help lists the commands"

    def start(self) -> None:
        """Follow the training in the background, and tell of what it does."""
        threading.Thread(target=self._follow, daemon=True).start()

    # ------------------------------------------------------------------ going on

    def do_where(self, line: str) -> None:
        """where: where training stands, and at which node."""
        live = self._client.get(f"{self._place}/live")
        self._show(live)
        if any(rank["node"] and rank["rank"] == self._rank for rank in live["ranks"]):
            print_current(self._client.get(f"{self._place}/current", rank=self._rank))

    def do_pause(self, line: str) -> None:
        """pause: hold at the end of the step under way."""
        self._control(verb="pause")

    def do_continue(self, line: str) -> None:
        """continue: run until a hit or the end."""
        self._control(verb="continue")

    do_c = do_continue

    def do_step(self, line: str) -> None:
        """step [N]: run N steps (1), then hold."""
        self._control(verb="step", count=whole(line or "1"))

    do_s = do_step

    def do_next(self, line: str) -> None:
        """next: run one operator, then hold."""
        self._control(verb="next")

    do_n = do_next

    def do_to(self, line: str) -> None:
        """to NODE: run until a node has run."""
        self._control(verb="to", node=line.strip())

    def do_terminate(self, line: str) -> None:
        """terminate: end training; its `finally` blocks run."""
        self._control(verb="terminate")

    # ------------------------------------------------------------------ looking

    def do_print(self, line: str) -> None:
        """print NODE[:slot] [INDEX]: elements of a kept value; of a parameter with p:NAME."""
        self._print_value(line, previous=False)

    def do_previous(self, line: str) -> None:
        """previous NODE[:slot] [INDEX]: the same as it was in the step before."""
        self._print_value(line, previous=True)

    def do_stats(self, line: str) -> None:
        """stats NODE: statistics of a node's inputs and outputs in the latest step."""
        base = f"{self._place}/ranks/{self._rank}"
        found = self._client.get(f"{base}/nodes", text=line.strip(), count=2)["nodes"]
        if not found:
            raise OpscopeError(f'there is no node "{line.strip()}" so far')
        details = self._client.get(f"{base}/nodes/{found[0]['id']}")
        if self._json:
            print_json(details)
            return
        print_line(f"{details['name']}  step {details['step']}")
        for side in (*details["inputs"], *details["outputs"]):
            numbers = side["numbers"] or {}
            shown = "  ".join(f"{n} {numbers.get(n)}" for n in ("min", "max", "mean", "nan"))
            print_line(f"  {side['io']} {side['slot']}  {side['dtype']} {side['shape']}  {shown}")

    def do_hits(self, line: str) -> None:
        """hits: the hits so far, the latest last."""
        place = f"{self._place}/ranks/{self._rank}/hits"
        found = self._client.get(place, count=1000)["hits"]
        if found:
            print_hits(found[-20:], 20)
        else:
            print_line("no hits")

    def do_watch(self, line: str) -> None:
        """watch [recommended | none | SPEC | add SPEC | remove ID]: show or change watchpoints."""
        words = line.split()
        place = f"{self._place}/watchpoints"
        found = self._client.post(place, watch_order(words)) if words else self._client.get(place)
        print_fields(found)

    def do_recheck(self, line: str) -> None:
        """recheck [SPEC]: check watchpoints on the latest step without running."""
        query = {"watch": line.strip()} if line.strip() else {}
        print_recheck(self._client.post(f"{self._place}/recheck", query))

    def do_keep(self, line: str) -> None:
        """keep [NODE … | all | none]: keep values, by name, scope or glob; parameters as p:NAME."""
        print_fields([self._client.post(f"{self._place}/keep", keep_order(line.split()))])

    def do_quit(self, line: str) -> bool:
        """quit: leave; training goes on as it would without anybody."""
        return True

    do_q = do_EOF = do_quit  # noqa: N815 - what `cmd` calls the end of the input

    # ------------------------------------------------------------------ the shell itself

    def onecmd(self, line: str) -> bool:
        """Run one command; what goes wrong is one line."""
        try:
            return bool(super().onecmd(line))
        except OpscopeError as error:
            print_line(str(error))
            return False

    def emptyline(self) -> bool:
        """Enter alone does nothing."""
        return False

    def default(self, line: str) -> None:
        """Say that there is no such command."""
        print_line(f"{line.split()[0]} is no command; help lists them")

    def preloop(self) -> None:
        """Have Tab complete whole names: slashes and dashes belong to them."""
        with contextlib.suppress(ImportError):
            import readline

            readline.set_completer_delims(" \t\n")

    def completedefault(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Names of nodes that contain what was typed."""
        place = f"{self._place}/ranks/{self._rank}/nodes"
        found = self._client.get(place, text=text, count=50)["nodes"]
        names = [node["name"] for node in found]
        begun = [name for name in names if name.startswith(text)]
        if begun or len(names) == 1:
            return begun or names
        return [text, *names] if names else []  # what all begin with is not put in its place

    def _print_value(self, line: str, previous: bool) -> None:
        order = value_order(line.split(maxsplit=1), previous)
        print_value(self._client.post(f"{self._place}/value", order, rank=self._rank))

    def _control(self, **order: Any) -> None:
        self._show(self._client.post(f"{self._place}/control", order))

    def _show(self, live: Any) -> None:
        if self._json:
            print_json(live)
            return
        for line in standing(live):
            print_line(line)

    def _follow(self) -> None:
        """Tell of every hold and end, as they come."""
        try:
            for line in self._client.lines(f"{self._place}/events", watching="true"):
                if line.startswith(b"data:"):
                    self._tell(json.loads(line[5:])["live"])
        except (OSError, ValueError) as error:
            say(f"the server is gone ({error})")

    def _tell(self, live: Any) -> None:
        held = [rank for rank in live["ranks"] if rank["state"] not in ("running",)]
        now = "; ".join(standing({"ranks": held}))
        if now and now != self._last:
            if self.prompt:
                print_line()  # below what is being typed
            print_line(now)
        self._last = now
