"""`python -m bench.plain MODEL TEXTS TOKENS [LENGTH]`: the plain way to rank, which other benchmarks start.

Prints RBP_1 and RBP_10 of so many tokens, in windows of LENGTH (512) of each document: all logits, one comparison.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
left, ranks = int(sys.argv[3]), []
length = int(sys.argv[4]) if len(sys.argv) > 4 else 512
with Path(sys.argv[2]).open(encoding="utf-8") as lines, torch.inference_mode():
    for line in lines:
        ids = tokenizer(json.loads(line)["text"], return_tensors="pt")["input_ids"][0]
        for start in range(0, min(len(ids) - 1, left), length - 1):
            window = ids[start : start + length][: left + 1]
            logits = model(window[None]).logits[0, :-1]
            ranks.append((logits > logits.gather(1, window[1:, None])).sum(1) + 1)
            left -= len(window) - 1
every = torch.cat(ranks)
print((every <= 1).float().mean().item(), (every <= 10).float().mean().item())
