"""Tokenizers as their files have them: `tokenizer.json`, and the names of pre-tokenizers in GGUF files.

Each pre-tokenizer is compared with the one in the `tokenizer.json` of a model that brought the name.
"""

from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import pytest
from commands import here
from draws import rest_slow
from ggufs import save_case, write_bare, write_case
from tiny import SPECIAL, configure, make_tokenizer, texts, train, write_texts
from tokenizers import Regex, Tokenizer, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast, Qwen2Config

from rbp.errors import DataError
from rbp.models.find import ModelFiles, find_model
from rbp.models.load import load_tokenizer
from rbp.store import open_store

TEXTS = [  # what cuts differ in
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


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
DIGITS = pre_tokenizers.Digits(individual_digits=True)
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
PUBLISHED = {
    "gpt-2": [GPT2],
    "smollm": [DIGITS, GPT2],
    "llama-bpe": [split(LLAMA3), BYTES],
    "qwen2": [split(LLAMA3.replace("{1,3}", "")), BYTES],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Tokenizer, Path]:
    raw, folder = train(TEXTS * 3, 700, BYTES), tmp_path_factory.mktemp("trained")  # merges cross all cuts
    raw.save(str(folder / "tokenizer.json"))
    return raw, folder


@pytest.mark.long
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_pre_tokenizer_of_a_gguf_file_is_the_published_one(name, trained, tmp_path):
    raw, folder = trained
    file = write_bare(folder, tmp_path / "a.gguf", {"pre": name, "add_bos_token": False})
    expected = Tokenizer.from_str(raw.to_str())
    expected.pre_tokenizer = pre_tokenizers.Sequence(PUBLISHED[name])
    expected.model.ignore_merges = name == "llama-bpe"  # a word that is a token is not merged
    found = load_tokenizer(find_model(str(file)))
    for text in TEXTS:
        assert found(text)["input_ids"] == expected.encode(text).ids, text
    silent = load_tokenizer(find_model(str(write_bare(folder, tmp_path / "b.gguf", {"pre": name}))))
    assert (silent("a word")["input_ids"][0] == 0) == (name == "llama-bpe")  # a start token that no field states
    assert raw.encode(TEXTS[0]).ids != expected.encode(TEXTS[0]).ids  # the cuts matter


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ({"pre": "sorcery"}, r"cuts text into words \(sorcery\)"),
        ({"remove_extra_whitespaces": True}, r"passes over tokenizer\.ggml\.remove_extra_whitespaces"),
    ],
)
def test_a_tokenizer_that_is_not_read_as_it_is_meant(tokens, message, trained, tmp_path):
    file = write_bare(trained[1], tmp_path / "a.gguf", tokens)
    with pytest.raises(DataError, match=message):
        load_tokenizer(find_model(str(file)))


def by_scores(text: str, scores: dict[str, float]) -> list[str]:
    """SentencePiece's BPE: of all neighbours that make a token, those that make the best one are joined, again."""
    parts = ["▁", *text.replace(" ", "▁")]
    while pairs := [(scores[a + b], -i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in scores]:
        place = -max(pairs)[1]
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts


def test_a_sentencepiece_tokenizer(trained, tmp_path):
    words = ["the", "rank", "of", "ran", "he", "th", "an", "▁t", "▁the", "▁r", "▁rank", "▁o", "▁of", "k▁"]
    pieces = ["<unk>", "<s>", "</s>", *words, *"▁abcdefghijklmnopqrstuvwxyz"]
    scores, types = [float(-i) for i in range(len(pieces))], [2, 3, 3] + [1] * (len(pieces) - 3)
    tokens = {"model": "llama", "pre": "default", "tokens": pieces, "scores": scores, "token_type": types}
    tokens |= {"merges": None, "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "add_bos_token": False}
    files = find_model(str(write_bare(trained[1], tmp_path / "a.gguf", tokens)))
    tokenizer, table = load_tokenizer(files), dict(zip(pieces, scores, strict=True))
    for text in ("the rank of the rank", "then frank", "rank  of a thing"):
        assert tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) == by_scores(text, table)


CLASSES = ("Qwen2", "Gemma", "Llama", "Bloom", "Cohere", "CodeGen", "GPTNeoX")


@pytest.mark.parametrize("kind", rest_slow(["model type", "GPT2Tokenizer"], [f"{name}Tokenizer" for name in CLASSES]))
def test_the_file_is_followed_not_the_class(kind, tmp_path):
    """A tokenizer that cuts digits apart, in a folder whose class may bring a pre-tokenizer of its own."""
    raw = train(TEXTS * 3, 300, pre_tokenizers.Sequence([DIGITS, GPT2]))
    PreTrainedTokenizerFast(tokenizer_object=raw, **SPECIAL).save_pretrained(tmp_path)
    (Qwen2Config if kind == "model type" else LlamaConfig)().save_pretrained(tmp_path)
    if kind != "model type":
        configure(tmp_path / "tokenizer_config.json", tokenizer_class=kind)
    found = load_tokenizer(ModelFiles("m", tmp_path, None, ()))
    for text in TEXTS:
        assert found(text, add_special_tokens=False)["input_ids"] == raw.encode(text).ids, text


@pytest.mark.slow
@pytest.mark.parametrize("followed", [True, False])
def test_sentencepiece_s_own_files(followed, tmp_path):
    """A BPE that normalizes drops spaces, which transformers' Llama keeps."""
    train_pieces = pytest.importorskip("sentencepiece").SentencePieceTrainer.train
    options = {"model_type": "bpe", "vocab_size": 600, "hard_vocab_limit": False, "minloglevel": 2}
    if followed:
        options |= {"normalization_rule_name": "identity", "byte_fallback": True}
        options |= {"remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True}
    sentences = iter([*TEXTS, *texts(200, seed=3)] * 3)
    train_pieces(sentence_iterator=sentences, model_prefix=str(tmp_path / "tokenizer"), **options)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    with nullcontext() if followed else pytest.raises(DataError, match=r"as tokenizer\.model says"):
        load_tokenizer(ModelFiles("m", tmp_path, None, ()))


def test_a_tokenizer_by_hand(tmp_path):
    model, given = save_case("llama", tmp_path / "whole"), make_tokenizer("<|end|> $A")
    file = str(write_case("llama", model, tmp_path / "a.gguf", tokens={"pre": "sorcery"}))
    given.save_pretrained(tmp_path / "given")
    some = texts(4, longest=30)
    corpus = str(write_texts(tmp_path / "text.jsonl", some))
    command = ["extract", "--model", file, "--corpus", corpus, "--tokenizer", str(tmp_path / "given")]
    done = here(*command, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    expected = [token for text in some for token in given(text)["input_ids"][2:]]  # the first follows a special one
    assert open_store(done.stdout.strip()).ranks()["token"].tolist() == expected
