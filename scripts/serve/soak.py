"""The crowd of soak.sh; only Python's own library."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

DEMASK, MINUTES = os.environ["DEMASK"], float(os.environ["MINUTES"])
CLIENTS, SLOW, KILLED = 64, 24, 8
QUEUE = 16  # with the batch of 32, fewer places than clients: some are told to come again
GRACE, HEAD, BODY = 20, 20, 30  # seconds: --grace, and the server's limits
SLACK = 10  # a loaded machine

server = subprocess.Popen(
    [DEMASK, "serve", "--port", "0", "--queue", str(QUEUE), "--grace", str(GRACE)], stderr=subprocess.PIPE, text=True
)
line = server.stderr.readline()
PORT = int(re.search(r"http://127\.0\.0\.1:(\d+)/", line).group(1))
threading.Thread(target=server.stderr.read, daemon=True).start()


def connect(timeout=120):
    return socket.create_connection(("127.0.0.1", PORT), timeout)


def head(path, length):
    return f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{PORT}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"


def read_all(sock):
    data = b""
    while piece := sock.recv(1 << 16):
        data += piece
    return data


def ask(body, path="/v1/completions"):
    """Status and parsed answer; None where the connection was cut."""
    text = json.dumps(body).encode()
    with connect() as sock:
        sock.sendall(head(path, len(text)).encode() + text)
        data = read_all(sock)
    if not data.startswith(b"HTTP/1.1 ") or b"\r\n\r\n" not in data:
        return None
    top, answer = data.split(b"\r\n\r\n", 1)
    length = re.search(rb"content-length: (\d+)", top)
    if length and len(answer) < int(length.group(1)):
        return None
    return int(top[9:12]), json.loads(answer) if answer else None


def resident():
    with open(f"/proc/{server.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024


QUESTIONS = [
    {
        "prompt": f"Tom has {2 + i % 90} pens. Tom buys {3 + i % 7} more. How many pens does Tom have now?",
        "strategy": ["entropy", "top1:k=2", "random:k=3", "klass"][i % 4],
        "temperature": 0 if i % 2 else 0.8,
        "seed": i,
        "max_tokens": 16 + i % 24,
    }
    for i in range(96)
]
alone = []
for question in QUESTIONS:
    status, answer = ask(question)
    assert status == 200, answer
    alone.append(answer["choices"][0]["text"])


def settled(most=0.0):
    """Resident memory once it no longer falls, or is at most so much; a loaded machine gets a minute."""
    seen = resident()
    for _ in range(12):
        time.sleep(5)
        now = resident()
        if now <= most or now >= seen - 0.5 and most == 0:
            return now
        seen = now
    return seen


before = settled()
print(f"{len(QUESTIONS)} answers alone; {before:.0f} MiB resident", flush=True)

stop, lock = threading.Event(), threading.Lock()
count = {"answered": 0, "busy": 0, "different": 0, "cut": 0, "killed": 0, "slow": 0, "over": 0, "large": 0, "failed": 0}


def note(what, by=1):
    with lock:
        count[what] += by


def client(number):
    rng = random.Random(number)
    while not stop.is_set():
        index = rng.randrange(len(QUESTIONS))
        try:
            outcome = ask(QUESTIONS[index])
        except OSError:
            outcome = None
        if outcome is None:
            note("cut" if stop.is_set() else "failed")
        elif outcome[0] == 200:
            note("answered")
            if outcome[1]["choices"][0]["text"] != alone[index]:
                note("different")
        elif outcome[0] in (429, 503):
            note("busy")
            time.sleep(0.2)
        else:
            note("failed")


def killed(number):
    rng = random.Random(1000 + number)
    while not stop.is_set():
        text = json.dumps({**QUESTIONS[rng.randrange(96)], "max_tokens": 60, "stream": rng.random() < 0.5}).encode()
        try:
            with connect() as sock:
                sock.sendall(head("/v1/completions", len(text)).encode() + text[: rng.randrange(1, len(text) + 1)])
                time.sleep(rng.random() * 0.3)
        except OSError:
            pass
        note("killed")


def slow(number):
    """Half a head, half a body or nothing, a byte now and then; the server must end it."""
    rng = random.Random(2000 + number)
    while not stop.is_set():
        begun = [b"", b"GET /health HTTP/1.1\r\nx: ", head("/v1/tokenize", 5000).encode() + b"{"][rng.randrange(3)]
        start = time.time()
        try:
            with connect(1) as sock:
                sock.sendall(begun)
                while not stop.is_set():
                    try:
                        if not sock.recv(4096):
                            break
                    except TimeoutError:
                        if begun:
                            sock.sendall(b"x")
                    if time.time() - start > HEAD + BODY + SLACK:
                        note("over")
                        break
        except OSError:
            pass
        note("slow")


def large():
    text = json.dumps({"text": "word " * 200_000}).encode()
    while not stop.is_set():
        try:
            with connect() as sock:
                sock.sendall(head("/v1/tokenize", len(text)).encode() + text)
                read_all(sock)
        except OSError:
            pass
        note("large")
        time.sleep(0.5)


def crowd():
    work = [(client, CLIENTS), (killed, KILLED), (slow, SLOW)]
    threads = [threading.Thread(target=what, args=(i,)) for what, n in work for i in range(n)]
    threads += [threading.Thread(target=large) for _ in range(4)]
    for thread in threads:
        thread.start()
    return threads


threads = crowd()
time.sleep(MINUTES * 60)
peak = resident()
stop.set()
for thread in threads:
    thread.join()
after = settled(1.2 * before)
print(f"{MINUTES:g} minutes: {count}; {peak:.0f} MiB at the end of the crowd, {after:.0f} MiB after", flush=True)

# And a SIGTERM in the middle of another crowd.
stop.clear()
threads = crowd()
time.sleep(8)
start = time.time()
server.send_signal(signal.SIGTERM)
stop.set()
code = server.wait(timeout=GRACE + 3 * SLACK)
took = time.time() - start
for thread in threads:
    thread.join()
print(f"SIGTERM: ended with {code} after {took:.1f} s; {count['cut']} connections cut", flush=True)

wrong = []
if count["different"] or count["failed"]:
    wrong.append("answers that differ from those alone, or failed")
if count["over"]:
    wrong.append("slow connections that outlived their limits")
if not count["busy"]:
    wrong.append("nobody was ever told that the queue is full")
if after > 1.2 * before:
    wrong.append(f"memory: {before:.0f} MiB before, {after:.0f} MiB after")
if took > GRACE + SLACK or code != 0:
    wrong.append("the end took longer than its grace period")
sys.exit("; ".join(wrong) if wrong else 0)
