"""Load test of a demask server with nothing but Python's own library."""

import asyncio
import itertools
import json
import os
import random
import socket
import statistics
import sys
import time
import urllib.parse

URL = urllib.parse.urlparse(sys.argv[1])
PROCESS, DURATION, PART = int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
CLIENTS = 64
FIXED = ["eva has 7 shells . eva finds 19 more . how many shells does eva have now ?", "two plus two is", "a b c"]


class Gone(Exception):
    """The server closed the connection without an answer."""


async def send(method, path, body=b"", headers=""):
    """Sends a request; returns status, headers and the reader of the body."""
    reader, writer = await asyncio.open_connection(URL.hostname, URL.port)
    head = f"{method} {path} HTTP/1.1\r\nhost: load\r\nconnection: close\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    writer.write(head.encode() + body)
    try:
        await writer.drain()
    except ConnectionError:
        pass  # Refused before all of the body was sent; the answer is there to be read.
    status = await reader.readline()
    if not status:
        raise Gone
    found = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode().partition(":")
        found[name.lower()] = value.strip()
    return int(status.split()[1]), found, reader, writer


async def ask(method, path, body=b"", headers=""):
    """A whole answer: status, headers, body."""
    status, found, reader, writer = await send(method, path, body, headers)
    content = await reader.read()
    writer.close()
    if found.get("transfer-encoding") == "chunked":
        content = unchunk(content)
    return status, found, content


def ask_plainly(path, body):
    """The status of a request whose body the server may refuse to read to its end."""
    with socket.create_connection((URL.hostname, URL.port), timeout=60) as connection:
        head = f"POST {path} HTTP/1.1\r\nhost: load\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        try:
            connection.sendall(head.encode() + body)
        except ConnectionError:
            pass  # Refused on the way; the answer is there to be read.
        status = connection.makefile("rb").readline()
    if not status:
        raise Gone
    return int(status.split()[1])


def unchunk(data):
    out = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        out, data = out + data[:length], data[length + 2 :]
    return out


async def post(path, body):
    status, headers, content = await ask("POST", path, json.dumps(body).encode())
    return status, headers, json.loads(content)


async def metrics():
    _, _, content = await ask("GET", "/metrics")
    lines = [line.rsplit(" ", 1) for line in content.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def processor():
    """Seconds the server has computed, on all cores."""
    with open(f"/proc/{PROCESS}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory():
    """Resident bytes of the server."""
    with open(f"/proc/{PROCESS}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


async def requests():
    """Different prompts, decoders, temperatures, seeds and lengths."""
    _, _, content = await ask("GET", "/v1/tasks")
    tasks = [task["id"] for task in json.loads(content)["data"]]
    prompts = list(FIXED)
    for task, index in itertools.product(tasks, range(6)):
        prompts.append((await post("/v1/tasks/problem", {"task": task, "index": index}))[2]["prompt"])
    _, _, content = await ask("GET", "/v1/strategies")
    usable = {s["id"] for s in json.loads(content)["data"] if s["available"]}
    strategies = [s for s in ("entropy", "entropy:k=3", "demask", "klass", "threshold", "random:k=2") if s.split(":")[0] in usable]
    made = []
    for index in range(48):
        made.append({
            "messages": [{"role": "user", "content": prompts[index % len(prompts)]}],
            "strategy": strategies[index % len(strategies)],
            "temperature": 0 if index % 2 else 0.8,
            "seed": index,
            "max_tokens": 24 + 8 * (index % 5),
        })
    return made


async def alone(bodies):
    """The answer of each request by itself."""
    answers = []
    for body in bodies:
        status, _, answer = await post("/v1/chat/completions", body)
        assert status == 200, answer
        answers.append(answer["choices"])
    return answers


async def window(bodies, clients, seconds):
    """Answers in a second, and in a second of the server's processor time, with so many clients at once."""
    done, over = 0, False

    async def client(number):
        nonlocal done
        for index in itertools.count(number * 7):
            if over:
                return
            await post("/v1/chat/completions", bodies[index % len(bodies)])
            done += 1

    running = asyncio.gather(*(client(number) for number in range(clients)))
    # What is on its way when the counting begins stands for what is on its way when it ends.
    await asyncio.sleep(1)
    before, start, spent = done, time.monotonic(), processor()
    await asyncio.sleep(seconds)
    count, took, spent = done - before, time.monotonic() - start, processor() - spent
    over = True
    await running
    return count / took, count / max(spent, 1e-9)


async def throughput(bodies):
    """Many against one at a time, by turns, so that whatever else the machine does meets both alike."""
    own, start = time.process_time(), time.monotonic()
    pairs = [(await window(bodies, 1, 6), await window(bodies, CLIENTS, 6)) for _ in range(5)]
    own = (time.process_time() - own) / (time.monotonic() - start)
    wall = statistics.median(many[0] / one[0] for one, many in pairs)
    work = statistics.median(many[1] / one[1] for one, many in pairs)
    rates = [statistics.median(pair[side][0] for pair in pairs) for side in (0, 1)]
    print(f"throughput: {rates[0]:.1f} answers a second one at a time, {rates[1]:.1f} from {CLIENTS} clients; "
          f"median of the ratios {wall:.2f} ({', '.join(f'{many[0] / one[0]:.2f}' for one, many in pairs)}), "
          f"per second of the server's processor time {work:.2f}; the clients took {own:.1%} of a core")
    return wall


async def together(bodies, answers):
    """CLIENTS at once for DURATION seconds."""
    done, wrong, sizes, waits, start = 0, 0, [], [], time.monotonic()

    async def client(number):
        nonlocal done, wrong
        # Every client takes all requests equally often, in an order of its own.
        order = random.Random(number)
        while True:
            for index in order.sample(range(len(bodies)), len(bodies)):
                if time.monotonic() - start > DURATION:
                    return
                began = time.monotonic()
                status, _, answer = await post("/v1/chat/completions", bodies[index])
                assert status == 200, answer
                waits.append(time.monotonic() - began)
                done += 1
                wrong += answer["choices"] != answers[index]

    async def watch():
        while time.monotonic() - start < DURATION:
            sizes.append(memory())
            await asyncio.sleep(1)

    await asyncio.gather(watch(), *(client(number) for number in range(CLIENTS)))
    rate = done / (time.monotonic() - start)
    assert wrong == 0, f"{wrong} of {done} answers differ from those of the same request alone"
    # Memory is compared after the first third, in which buffers grow to their size.
    settled = sizes[len(sizes) // 3 :]
    half = len(settled) // 2
    early, late = max(settled[:half], default=1), max(settled[half:], default=1)
    print(f"{CLIENTS} clients, {DURATION:.0f} s: {done} answers, all equal to those alone; {rate:.1f} a second; "
          f"slowest {max(waits):.2f} s")
    print(f"memory: {early / 2**20:.1f} MiB, later {late / 2**20:.1f} MiB")
    assert late < early * 1.05 + 2**20, "memory grows"


def malformed():
    """A thousand requests that make no sense."""
    draw = random.Random(7)
    paths = ["/v1/completions", "/v1/chat/completions", "/v1/infill", "/v1/denoise", "/v1/tokenize", "/v1/detokenize",
             "/v1/tasks/problem", "/v1/tasks/check"]
    values = [-1, 1e300, 10**40, "x" * 50, [1], {"a": {"b": []}}, True, 0.5, [[]], "\ud800", -(2**63), [None], [1e9]]
    fields = ["max_tokens", "n", "temperature", "top_p", "top_k", "seed", "stop", "strategy", "tau", "gamma", "k", "eos",
              "block_length", "stream_options", "logprobs", "messages", "prompt", "text", "tokens", "unknown", "model"]
    bad_utf8 = [b"\xff\xfe{}", b'{"prompt": "\xc3\x28"}', b"\x00" * 64, b'{"messages": [{"role": "user", "content": "\xed\xa0\x80"}]}']
    broken = [b"", b"{", b"[]", b"null", b'"text"', b"7", b"{]}", b'{"prompt": 1e999}', b"[" * 50_000, b'{"a":' * 20_000, b"nan"]
    for number in range(1000):
        path = paths[number % len(paths)]
        kind = number // len(paths) % 5
        if kind == 0:
            yield path, draw.choice(broken)
        elif kind == 1:
            yield path, draw.choice(bad_utf8)
        elif kind == 2:
            yield path, b'{"prompt": "' + b"x" * (2 << 20) + b'"}'
        elif kind == 3:
            body = {"prompt": "a", draw.choice(fields): draw.choice(values), draw.choice(fields): draw.choice(values), "nonsense": 1}
            yield path, json.dumps(body).encode()
        else:
            yield path, json.dumps({draw.choice(fields): draw.choice(values), "messages": draw.choice(values)}).encode()


async def nonsense():
    counts = {}
    for path, body in malformed():
        status = await asyncio.to_thread(ask_plainly, path, body)
        counts[status] = counts.get(status, 0) + 1
        assert 400 <= status < 500, f"{path} answered {status} to {body[:80]!r}"
    print(f"1000 malformed requests: {dict(sorted(counts.items()))}")


async def deaths(bodies, answers):
    """Half of the streaming clients die in the middle."""
    long = {"strategy": "entropy", "max_tokens": 200, "eos": "none", "stream": True}

    async def client(number):
        index = number % len(bodies)
        dies = number % 2 == 0
        body = {**bodies[index], **long} if dies else {**bodies[index], "stream": True}
        status, _, reader, writer = await send("POST", "/v1/chat/completions", json.dumps(body).encode())
        assert status == 200
        if dies:
            await reader.readline()
            await asyncio.sleep(0.2 * random.random())
            writer.transport.abort()
            return
        data = unchunk(await reader.read()).decode()
        writer.close()
        chunks = [json.loads(line[6:]) for line in data.splitlines() if line.startswith("data: {")]
        text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"])
        assert text == answers[index][0]["message"]["content"], "a stream was changed by the death of others"

    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    for _ in range(100):
        now = await metrics()
        if now["demask_active_canvases"] == 0 and now["demask_queue_length"] == 0:
            print(f"{CLIENTS // 2} of {CLIENTS} clients killed mid-stream: no slot is stuck, "
                  f"{now['demask_abandoned_total']:.0f} canvases dropped, the others' answers are right")
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"slots are stuck: {now}")


async def overload():
    """More than fits: 200 or 429 at once, and the server goes on."""
    bodies = await requests()
    slow = {**bodies[0], "strategy": "entropy", "max_tokens": 200, "eos": "none"}

    async def client(_):
        began = time.monotonic()
        status, headers, _ = await post("/v1/chat/completions", slow)
        return status, time.monotonic() - began, headers

    outcomes = await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    taken = [seconds for status, seconds, _ in outcomes if status == 200]
    refused = [(seconds, headers) for status, seconds, headers in outcomes if status == 429]
    assert len(taken) + len(refused) == CLIENTS and taken and refused
    assert all(headers["retry-after"] == "1" for _, headers in refused)
    slowest = max(seconds for seconds, _ in refused)
    assert slowest < max(taken), "a refusal took as long as an answer"
    status, _, _ = await post("/v1/chat/completions", bodies[0])
    assert status == 200
    print(f"overload: {len(taken)} answered within {max(taken):.2f} s, {len(refused)} refused with 429 within {slowest:.2f} s")


async def everything():
    bodies = await requests()
    answers = await alone(bodies)
    await together(bodies, answers)
    await nonsense()
    await deaths(bodies, answers)
    assert await alone(bodies[:3]) == answers[:3]
    assert await throughput(bodies) >= 2, "batching gains less than a factor of two"


asyncio.run(everything() if PART == "all" else overload())
