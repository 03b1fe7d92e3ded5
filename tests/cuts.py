"""Tokenizers in folders whose classes may cut text in another way than their files do."""

from pathlib import Path

from adapters import Found
from tiny import SPECIAL, configure, train
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import LlamaConfig, PreTrainedTokenizerFast, Qwen2Config

from rbp.errors import RbpError
from rbp.extract.extraction import quiet
from rbp.models.find import ModelFiles
from rbp.models.load import load_tokenizer

TEXTS = [
    "It's 12 o'clock, I'LL pay 1234567 or 98.6% by 2031-04-05 (or so)!",
    "def f(x):\n    return x**2  # we've HelloWorld camelCase\r\n\r\n\t\tpass\n\n",
    "naïve café, Straße № 5, x² ½ ٣٤٥ Ⅷ; “quotes” — …",
    "東京は2020年、夏季五輪。 中文，标点！ 한국어 텍스트",
    "Привет, мир 42! Ελληνικά Ω ქართული नमस्ते दुनिया",
    "a  b   c\n \n  d \t e  ",
    "$x+y=z$ <a href='#'>tag</a> `code` ~tilde~ ^caret^ |pipe| \\n",
    "👍🏽 emoji 👩‍👩‍👧 zwj\u200dx\u00a0nbsp",
    "He said:'Tis'M 'LL'd don't DON'T 1st 22nd 333rd 4444th",
    "user@example.com/path?q=1&r=2 ...!!! --- ___",
]


_SPACED = pre_tokenizers.Metaspace()
_UNKNOWN = "<unk>"
_ODD = ["<|end|>", _UNKNOWN]
# of other kinds than BPE of bytes: the model, what trains it, and how it normalizes and cuts
_OTHERS = {
    "unigram": (models.Unigram(), trainers.UnigramTrainer(vocab_size=150, special_tokens=_ODD, unk_token=_UNKNOWN),
                normalizers.NFKC(), _SPACED),
    "wordpiece": (models.WordPiece(unk_token=_UNKNOWN), trainers.WordPieceTrainer(vocab_size=300, special_tokens=_ODD),
                  normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()),
    "words": (models.WordLevel(unk_token=_UNKNOWN), trainers.WordLevelTrainer(special_tokens=_ODD),
              normalizers.Lowercase(), pre_tokenizers.Whitespace()),
    "characters": (models.BPE(unk_token=_UNKNOWN, byte_fallback=True), trainers.BpeTrainer(special_tokens=_ODD),
                   normalizers.Replace(" ", "▁"), _SPACED),
}  # fmt: skip
_CLASSES = ("Qwen2", "GPT2", "Gemma", "Llama", "Bloom", "Cohere", "CodeGen", "GPTNeoX")
#: "qwen2" is told by its model type, the others by tokenizer_class
KINDS = ("qwen2", *(f"{name}Tokenizer" for name in _CLASSES), *_OTHERS)


def other_cut(folder: Path, kind: str) -> Path:
    """A folder whose tokenizer cuts digits apart, of a class that may bring a pre-tokenizer of its own."""
    if kind in _OTHERS:
        model, trainer, normalizer, cut = _OTHERS[kind]
        raw = Tokenizer(model)
        raw.normalizer, raw.pre_tokenizer = normalizer, cut
        raw.train_from_iterator(TEXTS, trainer)
    else:
        digits = pre_tokenizers.Digits(individual_digits=True)
        words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        raw = train(TEXTS * 3, 300, pre_tokenizers.Sequence([digits, words]))
    PreTrainedTokenizerFast(tokenizer_object=raw, **SPECIAL).save_pretrained(folder)
    (Qwen2Config if kind == "qwen2" else LlamaConfig)().save_pretrained(folder)
    if kind.endswith("Tokenizer"):
        configure(folder / "tokenizer_config.json", tokenizer_class=kind)
    return folder


def survey_tokenizer(kind: str, folder: Path) -> Found:
    """What a folder with a tokenizer of a kind gives: the tokens of its file, for every text."""
    with quiet():
        raw = Tokenizer.from_file(str(other_cut(folder, kind) / "tokenizer.json"))
        try:
            found = load_tokenizer(ModelFiles(str(folder), folder, None, ()))
        except RbpError as error:
            return Found(kind, "refused", error.what[:120])
    for text in TEXTS:
        own, its = (raw.encode(text, add_special_tokens=False).ids, found(text, add_special_tokens=False)["input_ids"])
        if own != its:
            return Found(kind, "wrong", f"{len(its)} tokens, not {len(own)}, or others: {text[:60]}")
    return Found(kind, "exact")
