"""`python -m bench.plain MODEL TEXTS`: the plain way to rank one page, which `bench.start` compares ours with.

Prints RBP_1 and RBP_10 of the first document: one forward pass, all logits, one comparison.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
with Path(sys.argv[2]).open(encoding="utf-8") as lines:
    text = json.loads(next(lines))["text"]
ids = tokenizer(text, return_tensors="pt", truncation=True, max_length=512)["input_ids"]
with torch.inference_mode():
    logits = model(ids).logits[0, :-1]
    ranks = (logits > logits.gather(1, ids[0, 1:, None])).sum(1) + 1
print((ranks <= 1).float().mean().item(), (ranks <= 10).float().mean().item())
