"""Trainings and people over TLS, and messages that nobody should send."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
import time
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from live.conftest import TOKEN, TRAIN, Process, Server, free_port, typed, wait_for
from opscope.live.wire import VERSION, decode, encode
from opscope.locks import is_held

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that only who has it trusts."""
    folder = tmp_path_factory.mktemp("certificate")
    chain, key = folder / "certificate.pem", folder / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    names = ["-subj", "/CN=opscope", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(chain), "-nodes", "-days", "2"]
    subprocess.run([*words, *names, *files], check=True, capture_output=True)
    return chain, key


def test_all_of_it_over_tls(
    tmp_path: Path, certificate: tuple[Path, Path], started: list[Process]
) -> None:
    chain, key = certificate
    page, trainings = free_port(), free_port()
    ports = ("--port", str(page), "--debugger-port", str(trainings))
    server = Process(tmp_path, "serve", *ports, "--certificate", chain, "--key", key)
    started.append(server)
    wait_for(lambda: "trainings connect to wss://" in server.text)
    assert f"page: https://127.0.0.1:{page}/" in server.text
    (tmp_path / "train.py").write_text(TRAIN)
    words = ("run", "--server", f"wss://127.0.0.1:{trainings}", "train.py", "300", "-1")
    training = Process(tmp_path, *words[:1], "--wait", *words[1:], OPSCOPE_CERTIFICATE=str(chain))
    stranger = Process(tmp_path, *words)
    started += [training, stranger]
    wait_for(lambda: "training waits" in training.text, 60)

    def ctl(*words: str, code: int = 0, **trusted: str) -> str:
        address = ("--server", f"https://127.0.0.1:{page}")
        found, text = typed(tmp_path, "ctl", "last", *address, *words, **trusted)
        assert found == code, text
        return text

    trusted = {"OPSCOPE_CERTIFICATE": str(chain)}
    assert "waiting" in ctl("status", **trusted)
    assert "CERTIFICATE_VERIFY_FAILED" in ctl("status", code=2)
    ctl("terminate", **trusted)
    assert training.wait() == 130
    assert stranger.wait() == 0 and stranger.text.count("is not trusted") == 1  # it trains on


@pytest.mark.parametrize(
    "options, error",
    [
        (("--certificate", "a.pem"), "needs both"),
        (("--certificate", "a.pem", "--key", "b.pem"), "cannot be used"),
    ],
)
def test_a_certificate_that_cannot_be_used(
    tmp_path: Path, options: tuple[str, ...], error: str
) -> None:
    code, text = typed(tmp_path, "serve", *options)
    assert code == 2 and error in text


def training_link(server: Server) -> str:
    return f"ws://127.0.0.1:{server.debugger_port}/training"


@pytest.mark.parametrize(
    "host, origin",
    [("evil.example", None), ("127.0.0.1", "http://evil.example")],
)
def test_trainings_come_under_the_right_name(server: Server, host: str, origin: str | None) -> None:
    sock = socket.create_connection(("127.0.0.1", server.debugger_port))
    place = f"ws://{host}:{server.debugger_port}/training"
    refused = pytest.raises((ConnectionClosed, InvalidStatus))
    with refused, connect(place, sock=sock, origin=origin, additional_headers=HEADERS) as link:  # type: ignore[arg-type]
        link.recv(timeout=5)


def greeting(**parts: object) -> str | bytes:
    hello = {
        "kind": "hello",
        "version": VERSION,
        "run": f"fuzzed-{random.random()}",
        "directory": "/nowhere/fuzzed",
        "rank": 0,
        "pid": 1,
        "host": "elsewhere",
    }
    return encode(hello | parts)


def test_messages_that_make_no_sense_break_nothing(server: Server) -> None:
    """After a proper greeting: each is ignored or ends the connection, never the server."""
    chance = random.Random(15)
    values = [None, 1, -1, 2**70, 1.5, "x", "../..", [], {}, [[]], {"kind": 1}, True, "\x00" * 50]
    names = ["kind", "id", "status", "result", "error", "data", "verb", "args", "state", "step"]
    for turn in range(40):
        with connect(training_link(server), additional_headers=HEADERS) as link:
            link.send(greeting(rank=chance.choice(values), pid=chance.choice(values)))
            try:
                assert decode(link.recv(timeout=10))["kind"] == "welcome"
                for _ in range(10):
                    kinds = ["status", "answer", "bye", "written", "hello", "nonsense"]
                    message = {chance.choice(names): chance.choice(values) for _ in range(4)}
                    message |= {"kind": chance.choice(kinds)}
                    text = json.dumps(message)
                    if turn % 4 == 0:
                        text = text[: chance.randrange(len(text))]
                    link.send(text.encode() if turn % 3 == 0 else text)
            except ConnectionClosed:
                continue
    assert server.get("/about")["api"] == "1"
    assert isinstance(server.get("/runs"), list)
    assert "Traceback" not in server.process.text


def test_a_training_that_lies_about_its_files_writes_nothing(server: Server) -> None:
    with connect(training_link(server), additional_headers=HEADERS) as link:
        link.send(greeting(directory="/nowhere/../../liar"))
        assert decode(link.recv(timeout=10))["copies"] is True
        for _ in range(3):
            question = decode(link.recv(timeout=10))
            if question["verb"] == "read":
                break
            listed = [["../escaped", 1, 5, 5], ["rank_0/../../escaped", 1, 5, 5]]
            link.send(encode({"kind": "answer", "id": question["id"], "result": listed}))
    assert not list(server.folder.rglob("*escaped*")) and not Path("/escaped").exists()


def test_a_rank_that_comes_back_before_its_old_connection_is_gone(server: Server) -> None:
    content = b'{"format": 2, "id": "twice"}'

    def answer(link: ClientConnection) -> str:
        question = decode(link.recv(timeout=10))
        reply = {"kind": "answer", "id": question["id"]}
        if question["verb"] == "files":
            reply["result"] = [["run.json", 1, len(content), len(content)]]
        elif question["verb"] == "read":
            reply["data"] = content
        link.send(encode(reply))
        return str(question["verb"])

    hello = greeting(run="twice", directory="/elsewhere/twice", host="elsewhere", pid=4)
    with contextlib.ExitStack() as links:
        first = links.enter_context(connect(training_link(server), additional_headers=HEADERS))
        first.send(hello)
        assert decode(first.recv(timeout=10))["copies"]
        answer(first)
        second = links.enter_context(connect(training_link(server), additional_headers=HEADERS))
        second.send(hello)
        assert decode(second.recv(timeout=10))["copies"]
        first.close()
        assert [answer(second) for _ in range(4)].count("files") >= 2
        (place,) = (server.folder / "opscope-runs").glob("twice-*")
        assert (place / "run.json").read_bytes() == content
        wait_for(lambda: is_held(place / "rank_0" / "lock"))
        time.sleep(1)  # the first one has been given up by now
        assert is_held(place / "rank_0" / "lock")
    wait_for(lambda: not is_held(place / "rank_0" / "lock"))
