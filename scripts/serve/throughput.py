"""Tokens a second of a demask server: the same requests one at a time and all at once, by turns.

    demask serve --model DIR --cache dual --block-length 32 --port 8080
    python3 scripts/serve/throughput.py http://127.0.0.1:8080 --rounds 3

Requests are token ids of mixed lengths, so that models without a vocabulary can be measured; with `--shared N` all of them
begin with the same N tokens, and in every round with others than in the round before. Every answer is streamed: the
wait for its first text, which is the first token that no later step can change, is measured too.
"""

import argparse
import concurrent.futures
import http.client
import json
import statistics
import time
import urllib.parse


def arguments():
    numbers = lambda text: [int(part) for part in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--prompts", type=numbers, default=[32, 64, 128, 256], help="tokens of the prompts, in turn")
    parser.add_argument("--responses", type=numbers, default=[32, 64], help="tokens of the responses, in turn")
    parser.add_argument("--shared", type=int, default=0, help="tokens that all prompts of a round begin with")
    parser.add_argument("--ids", type=numbers, default=[1000, 91_000], help="token ids that prompts are made of: first, last")
    parser.add_argument("--strategy", default="entropy:k=4")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def bodies(args, turn):
    """The requests of one turn: token ids that no other turn has, so that nothing is kept from before."""
    first, last = args.ids
    word = lambda place: first + place * 7919 % (last - first)
    made = []
    for index in range(args.requests):
        own = args.prompts[index % len(args.prompts)]
        shared = [word(turn * 10_000 + place) for place in range(args.shared)]
        prompt = shared + [word(turn * 10_000 + 100 * index + place + 5_000) for place in range(own)]
        made.append({"prompt": prompt, "max_tokens": args.responses[index % len(args.responses)], "temperature": 0,
                     "strategy": args.strategy, "eos": "none", "stream": True, "seed": index})
    return made


def ask(url, body):
    """Seconds to the first text and to the end, and the tokens."""
    start = time.monotonic()
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=600)
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise SystemExit(f"the server answered {answer.status}: {answer.read().decode()}")
    first = None
    for line in answer:
        if first is None and line.startswith(b"data: {") and json.loads(line[6:])["choices"][0].get("text"):
            first = time.monotonic() - start
    whole = time.monotonic() - start
    connection.close()
    return first or whole, whole, body["max_tokens"]


def turn(url, requests, at_once):
    """Tokens a second, the median wait for the first text and for the whole answer."""
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        answers = list(pool.map(lambda body: ask(url, body), requests))
    took = time.monotonic() - start
    first, whole = (statistics.median(answer[place] for answer in answers) for place in (0, 1))
    return sum(answer[2] for answer in answers) / took, first, whole


def main():
    args = arguments()
    url = urllib.parse.urlparse(args.url)
    ask(url, bodies(args, 999)[0])
    seen = {1: [], args.requests: []}
    for number in range(args.rounds):
        for place, at_once in enumerate(seen):
            seen[at_once].append(turn(url, bodies(args, 2 * number + place), at_once))
    print("| at once | tokens/s | first text, s | whole answer, s |\n|---:|---:|---:|---:|")
    for at_once, turns in seen.items():
        cells = [sorted(values) for values in zip(*turns)]
        print(f"| {at_once} | " + " | ".join(f"{statistics.median(c):.2f} [{c[0]:.2f}, {c[-1]:.2f}]" for c in cells) + " |")
    ratio = [many[0] / one[0] for one, many in zip(*seen.values())]
    print(f"\nall at once {statistics.median(ratio):.2f} times the tokens a second of one at a time "
          f"({', '.join(f'{r:.2f}' for r in ratio)}); medians of {args.rounds} turns, least and most in brackets")


if __name__ == "__main__":
    main()
