#!/usr/bin/env python3
"""Workers are killed under requests, while others move experts and take profiles without a pause.

    python3 tests/clients/ranks_die.py [--colibri build/release/colibri] [--ranks 4] [--seed 0] [--stop]

Starts the server itself. Every completion must be the bytes of an undisturbed one, every other answer 200, 400, 409 or
503, and the server must end with 0 on TERM. All workers die in turn; with --stop the second one only stops.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
COUNTS, FAULTS = collections.Counter(), []


class Server:
    def __init__(self, program, ranks, directory):
        self.marker = os.path.join(directory, "model")
        os.symlink(ROOT / "configs/models/demo", self.marker)
        self.log = open(os.path.join(directory, "log"), "w+")
        words = ["serve", "--port", "0", "--model", self.marker, "--ranks", str(ranks), "--max-context", "512",
                 "--profile-dir", directory, "--step-timeout", "5"]
        self.process = subprocess.Popen([program, *words], stderr=self.log)
        self.url = self.wait_for_url()

    def wait_for_url(self):
        for _ in range(600):
            said = open(self.log.name).read()
            if " at http://" in said:
                return said.split(" at ")[1].split()[0]
            time.sleep(0.1)
        raise SystemExit("the server does not start: " + said)

    def ask(self, path, body=None):
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, data=body), timeout=120) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError as error:
            return None, repr(error)

    def pid_of(self, rank):
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path("/proc", name, "cmdline").read_bytes()
                variables = pathlib.Path("/proc", name, "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if self.marker.encode() in words and f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables:
                return int(name)
        raise SystemExit(f"there is no process of rank {rank}")


def completion(server, number):
    asked = {"prompt": f"ROMEO {number}:", "max_tokens": 120, "temperature": 0.9, "seed": number, "ignore_eos": True}
    status, body = server.ask("/v1/completions", json.dumps(asked).encode())
    return json.loads(body)["choices"][0]["text"] if status == 200 else f"{status}: {body}"


def ask_again_and_again(server, number, want, is_over):
    while not is_over.is_set():
        got = completion(server, number)
        COUNTS["completions"] += 1
        if got != want:
            FAULTS.append((number, got))


def move_experts(server, num_ranks, is_over):
    while not is_over.is_set():
        placement = json.loads(server.ask("/placement")[1])
        lost = json.loads(server.ask("/health")[1]).get("lost_ranks", [])
        alive = [rank for rank in range(num_ranks) if rank not in lost]
        for layer in placement["layers"]:
            owners = [random.choice(alive) for _ in range(16)]
            layer["experts"] = [[expert for expert in range(16) if owners[expert] == rank] for rank in range(num_ranks)]
        for path, body in [("/rebalance", json.dumps(placement).encode()), ("/start_profile", b'{"num_steps":5}'), ("/stop_profile", b"")]:
            status, answer = server.ask(path, body)
            COUNTS[f"{path} {status}"] += 1
            if status not in (200, 400, 409, 503):
                FAULTS.append((path, status, answer))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--colibri", default=str(ROOT / "build/release/colibri"))
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop", action="store_true")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    with tempfile.TemporaryDirectory() as directory:
        server = Server(arguments.colibri, arguments.ranks, directory)
        wanted = [completion(server, number) for number in range(4)]
        is_over = threading.Event()
        threads = [threading.Thread(target=ask_again_and_again, args=(server, i, want, is_over)) for i, want in enumerate(wanted)]
        threads += [threading.Thread(target=move_experts, args=(server, arguments.ranks, is_over)) for _ in range(2)]
        for thread in threads:
            thread.start()
        victims = random.sample(range(1, arguments.ranks), arguments.ranks - 1)
        for place, rank in enumerate(victims):
            time.sleep(random.uniform(0.5, 2.5))
            os.kill(server.pid_of(rank), signal.SIGSTOP if arguments.stop and place == 1 else signal.SIGKILL)
        time.sleep(8 if arguments.stop else 1)  # until the one that stopped is missed
        is_over.set()
        for thread in threads:
            thread.join()
        lost = json.loads(server.ask("/health")[1]).get("lost_ranks")
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(60)
    print(f"lost {lost}, the server's exit code {code}; {dict(sorted(COUNTS.items()))}")
    for fault in FAULTS[:5]:
        print("FAULT", fault)
    return 1 if FAULTS or code != 0 or lost != sorted(victims) else 0


if __name__ == "__main__":
    sys.exit(main())
