"""Runs every curl of a document's console blocks, as it is written there, and compares the answers that
the document shows. What a document cannot know is put in: receipts, which it writes as "…"."""

import json
import os
import re
import subprocess
import sys

addresses = {"127.0.0.1:8080": os.environ["HTTP"], "127.0.0.1:4151": os.environ["NSQ"]}


def commands(text):
    """The commands of the document, each with the answer that is shown below it, if one is."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        block = block.replace("\\\n", " ")
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, answer = part.partition("\n")
            if command.startswith("curl "):
                yield command, answer.strip()


def run(command):
    """The answer; that of a stream, which has no end, is what it sends in two seconds."""
    endless = " -N " in command
    command = command.replace("curl ", "curl -sS --fail-with-body -m 2 " if endless else "curl -sS --fail-with-body -m 60 ", 1)
    p = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    if p.returncode not in ((28,) if endless else (0,)):  # 28: it took longer than -m
        raise SystemExit(f"{command}\nexit code {p.returncode}: {p.stdout}{p.stderr}")
    return p.stdout


receipt = None
count = 0
for command, shown in commands(open(sys.argv[1], encoding="utf-8").read()):
    here = command
    for shown_as, address in addresses.items():
        here = here.replace(shown_as, address)
    if '"…"' in here:
        here = here.replace('"…"', f'"{receipt}"')
    answer = run(here)
    print("$", command, "\n" + answer)
    if " -N " in command and "\ndata: {" not in "\n" + answer:
        raise SystemExit("no events")
    if ":pull" in command:
        receipt = json.loads(answer)["messages"][0]["receipt"]
    if ":ack" in command and json.loads(answer)["results"] != [{"status": 200}]:
        raise SystemExit("the receipt was not taken")
    if shown and shown != answer.strip() and (shown[0] != "{" or json.loads(shown) != json.loads(answer)):
        raise SystemExit(f"the document shows {shown}")
    count += 1
if count < 3:
    raise SystemExit(f"{count} commands found in {sys.argv[1]}")
