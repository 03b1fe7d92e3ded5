"""Tokenizers as their files have them: `tokenizer.json`, and the names of pre-tokenizers in GGUF files.

Each pre-tokenizer is compared with the one in the `tokenizer.json` of a model that brought the name.
"""

import sys
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import here
from cuts import TEXTS, survey_tokenizer
from draws import rest_slow
from ggufs import save_case, write_bare, write_case
from tiny import make_tokenizer, texts, train, write_texts
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rbp.errors import DataError
from rbp.extract.extraction import extract
from rbp.models.find import ModelFiles, find_model
from rbp.models.load import load_tokenizer
from rbp.models.tokenizers import verify_tokens
from rbp.store import open_store
from rbp.texts.protocol import protocol


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
DIGITS = pre_tokenizers.Digits(individual_digits=True)
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
V3 = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
)
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
PUBLISHED = {
    **{name: [GPT2] for name in ("gpt-2", "mpt", "olmo", "phi-2")},
    **{name: [DIGITS, GPT2] for name in ("smollm", "starcoder", "refact", "command-r")},
    **{name: [split(LLAMA3), BYTES] for name in ("llama-bpe", "dbrx")},
    "qwen2": [split(LLAMA3.replace("{1,3}", "")), BYTES],
    "tekken": [split(TEKKEN), BYTES],
    "gpt-4o": [split(GPT4O), BYTES],
    # as llama.cpp has them; Falcon's own file also cuts digits from the space before, and it has no token of both
    "falcon": [split(r"[\p{P}$+<=>^~|`]+"), split(WORDS), split("[0-9]{3}"), BYTES],
    "default": [split(r"[\p{P}$+<=>^~|]+"), split(WORDS), split(r"\p{N}+"), split("[0-9]{3}"), BYTES],
    "deepseek-coder": [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK), DIGITS, BYTES],
    "deepseek-v3": [split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(V3), BYTES],
}
WHOLE_WORDS = ("llama-bpe", "tekken")
OTHER_NAMES = ("mpt", "olmo", "phi-2", "starcoder", "refact", "command-r", "dbrx")  # of what another one has too


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Tokenizer, Path]:
    raw, folder = train(TEXTS * 3, 700, BYTES), tmp_path_factory.mktemp("trained")  # merges cross all cuts
    raw.save(str(folder / "tokenizer.json"))
    return raw, folder


@pytest.mark.long
@pytest.mark.parametrize("name", rest_slow([name for name in PUBLISHED if name not in OTHER_NAMES], OTHER_NAMES))
def test_a_pre_tokenizer_of_a_gguf_file_is_the_published_one(name, trained, tmp_path):
    raw, folder = trained
    file = write_bare(folder, tmp_path / "a.gguf", {"pre": name, "add_bos_token": False})
    expected = Tokenizer.from_str(raw.to_str())
    expected.pre_tokenizer = pre_tokenizers.Sequence(PUBLISHED[name])
    expected.model.ignore_merges = name in WHOLE_WORDS
    found = load_tokenizer(find_model(str(file)))
    for text in TEXTS:
        assert found(text)["input_ids"] == expected.encode(text).ids, text
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


@pytest.mark.parametrize("prefix", [None, True])
def test_a_sentencepiece_tokenizer(prefix, trained, tmp_path):
    words = ["the", "rank", "of", "ran", "he", "th", "an", "▁t", "▁the", "▁r", "▁rank", "▁o", "▁of", "k▁"]
    pieces = ["<unk>", "<s>", "</s>", *words, *"▁abcdefghijklmnopqrstuvwxyz"]
    scores, types = [float(-i) for i in range(len(pieces))], [2, 3, 3] + [1] * (len(pieces) - 3)
    tokens = {"model": "llama", "pre": "default", "tokens": pieces, "scores": scores, "token_type": types}
    tokens |= {"merges": None, "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "add_bos_token": False}
    tokens |= {"add_space_prefix": prefix}
    files = find_model(str(write_bare(trained[1], tmp_path / "a.gguf", tokens)))
    tokenizer, table = load_tokenizer(files), dict(zip(pieces, scores, strict=True))
    for text in ("the rank of the rank", "then frank", "rank  of a thing"):
        assert tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) == by_scores(text, table)


@pytest.mark.parametrize("stated", [None, True, False])
def test_a_start_token_where_llama_cpp_puts_one(stated, trained, tmp_path):
    """Files of Llama 3 do not say that texts begin with one."""
    file = write_bare(trained[1], tmp_path / "a.gguf", {"pre": "llama-bpe", "add_bos_token": stated})
    starts = load_tokenizer(find_model(str(file)))("a word")["input_ids"][0] == 0
    assert starts == (stated is not False)


@pytest.mark.parametrize("kind", ["qwen2", "GPT2Tokenizer", "unigram"])  # all: tests/slow/test_every_model.py
def test_the_file_is_followed_not_the_class(kind, tmp_path):
    found = survey_tokenizer(kind, tmp_path / "model")
    assert found.outcome == "exact", found


class Characters:
    """A stand-in for SentencePiece's processor, of a file by which each character is a piece."""

    def __init__(self, model_file):
        if b"\n" in Path(model_file).read_bytes():
            raise RuntimeError("could not parse ModelProto")

    def encode(self, text):
        return [*map(ord, f"▁{text}".replace(" ", "▁"))]

    def id_to_piece(self, token):
        return chr(token) if token else "<unk>"

    def unk_id(self):
        return 0


@pytest.mark.parametrize(
    ("normalizer", "message"),
    [
        (None, None),
        (normalizers.Replace(Regex(" +"), " "), "'two  spaces' as tokenizer.model says"),
        (normalizers.Strip(), "'at the end ' as"),
        (normalizers.NFKC(), "'ﬁne ①② Ａ' as"),
    ],
)
def test_a_file_of_sentencepiece_is_followed_or_the_tokenizer_refused(
    normalizer, message, tmp_path, monkeypatch, caplog
):
    monkeypatch.setitem(sys.modules, "sentencepiece", SimpleNamespace(SentencePieceProcessor=Characters))
    kinds = dict.fromkeys("▁ \n\t" + "".join(map(chr, range(33, 127))) + "ïçéﬁ①②Ａ東京は😀")
    raw = Tokenizer(models.BPE({character: i for i, character in enumerate(kinds)}, []))
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.normalizer = normalizer
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw)
    (tmp_path / "tokenizer.model").write_bytes(b"a model")
    with nullcontext() if message is None else pytest.raises(DataError, match=message):
        assert verify_tokens(tokenizer, tmp_path, "m") is tokenizer
    assert not caplog.text
    (tmp_path / "tokenizer.model").write_bytes(b"IQ== 0\nIg== 1\n")  # tiktoken's
    assert verify_tokens(tokenizer, tmp_path, "m") is tokenizer
    assert "not compared with tokenizer.model" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options", "followed"),
    [
        ("Llama", {"model_type": "unigram"}, False),
        ("Gemma", {"model_type": "unigram"}, False),
        ("Llama", {"model_type": "bpe"}, False),  # which drops spaces
        ("Llama", {"model_type": "bpe", "normalization_rule_name": "identity", "byte_fallback": True}, True),
        ("GPTSw3", {"model_type": "unigram"}, True),
    ],
)
def test_sentencepiece_s_own_files(kind, options, followed, tmp_path):
    train_pieces = pytest.importorskip("sentencepiece").SentencePieceTrainer.train
    sentences = iter([*TEXTS, *texts(200, seed=3)] * 3)
    spaces = (
        {"remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True} if "byte_fallback" in options else {}
    )
    options |= {"vocab_size": 600, "hard_vocab_limit": False, "minloglevel": 2, **spaces}
    train_pieces(sentence_iterator=sentences, model_prefix=str(tmp_path / "tokenizer"), **options)
    (tmp_path / "tokenizer_config.json").write_text(f'{{"tokenizer_class": "{kind}Tokenizer"}}')
    with nullcontext() if followed else pytest.raises(DataError, match=r"as tokenizer\.model says"):
        load_tokenizer(ModelFiles("m", tmp_path, None, ()))


def test_a_tokenizer_by_hand(tmp_path):
    model_folder = save_case("llama", tmp_path / "whole")
    file = str(write_case("llama", model_folder, tmp_path / "a.gguf", tokens={"pre": "sorcery"}))
    make_tokenizer("<|end|> $A").save_pretrained(tmp_path / "given")
    tokenizer_folder, corpus = str(tmp_path / "given"), str(write_texts(tmp_path / "text.jsonl", texts(4, longest=30)))
    found = [find_model(str(model), tokenizer=tokenizer_folder) for model in (file, model_folder)]
    by_file, other = map(open_store, extract(found, [corpus], protocol("windows", length=48), tmp_path / "out"))
    assert by_file.ranks()["greater"].tolist() == other.ranks()["greater"].tolist()
    own = find_model(str(model_folder))
    assert found[1].tokenizer_fingerprint(None) != own.tokenizer_fingerprint(None)
    done = here(
        "extract", "--model", file, "--corpus", corpus, "--out", str(tmp_path / "o"), "--tokenizer", tokenizer_folder
    )
    assert open_store(done.stdout.strip()).ranks()["token"].size > 20, done.stderr
