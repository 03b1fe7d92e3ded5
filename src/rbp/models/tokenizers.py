"""Load tokenizers of folders and GGUF files, checked against what these files say.

transformers builds a tokenizer by the name of its class, and some classes bring a pre-tokenizer of their own, whatever
`tokenizer.json` says. A GGUF file says the name of its pre-tokenizer alone; what the names mean is llama.cpp's to
define (`llama-vocab.cpp`), and the table here says the same.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rbp.errors import DataError, first_line
from rbp.fingerprint import fingerprint
from rbp.io import parse_json
from rbp.names import and_more

log = logging.getLogger(__name__)

FILES = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt")
_BY_HAND = "Give the model's tokenizer by --tokenizer FOLDER."

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD, _MARKS = r"[^\r\n\p{L}\p{N}]?\p{L}+", r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _cased(after: str) -> str:
    """Return a pattern of words that begin with capitals, and of others, each with `after`."""
    start = r"[^\r\n\p{L}\p{N}]?"
    return f"{start}{_UPPER}*{_LOWER}+{after}|{start}{_UPPER}+{_LOWER}*{after}"


def _ranges(text: str) -> str:
    """Return a class of characters by their first and last code points, in hexadecimal."""
    spans = (span.partition("-") for span in text.split())
    return "".join(f"{chr(int(first, 16))}-{chr(int(last or first, 16))}" for first, _, last in spans)


_CJK = _ranges("4e00-9fa5 800-4e00 ac00-d7ff")
# letters with case, as DeepSeek's first tokenizer lists them
_LETTERS = _ranges(
    "41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376-377 37b-37d 37f 386 388-38a 38c 38e-3a1 "
    "3a3-3f5 3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b 1d6b-1d77 1d79-1d9a "
    "1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 "
    "1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 "
    "212a-212d 212f-2134 2139 213c-213f 2145-2149 214e 2183-2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2-2cf3 a640-a66d "
    "a680-a69b a722-a76f a771-a787 a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f "
    "104b0-104d3 104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df 1e900-1e943"
)
_SYMBOLS = _ranges("21-2f 3a-7e ff01-ff0f ff1a-ff5e 2018-201f 3000-3002")
_ASCII = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"

# One after the other, each cuts what the one before it left: what it matches, and what is between
_LLAMA3 = (f"{_CONTRACTIONS}|{_WORD}|\\p{{N}}{{1,3}}|{_MARKS}|{_SPACES}",)
_QWEN2 = (f"{_CONTRACTIONS}|{_WORD}|\\p{{N}}|{_MARKS}|{_SPACES}",)
_DIGITS = (r"\p{N}", _GPT2)
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    f"[{_ranges('4e00-9fa5 3040-309f 30a0-30ff')}]+",
    f"{_ASCII}[A-Za-z]+|[^\\r\\n\\p{{L}}\\p{{P}}\\p{{S}}]?[\\p{{L}}\\p{{M}}]+| ?[\\p{{P}}\\p{{S}}]+[\\r\\n]*|{_SPACES}",
)
_GPT4O = (f"{_cased(f'{_CONTRACTIONS}?')}|\\p{{N}}{{1,3}}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n/]*|{_SPACES}",)
_BLOOM = " ?[^(\\s|.,!?…。，、।۔،)]+"
_SPLITS: dict[tuple[str, ...], tuple[str, ...]] = {  # by names of pre-tokenizers
    ("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "exaone4", "gigachat", "mellum", "granite-docling"): (_GPT2,),
    ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"): _DIGITS,
    ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"): _LLAMA3,
    ("dbrx", "smaug-bpe", "glm4", "chatglm-bpe"): _LLAMA3,
    ("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "kormo", "solar-open", "grok-2"): _QWEN2,
    ("tekken",): (f"{_cased('')}|\\p{{N}}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n/]*|{_SPACES}",),
    ("gpt-4o", "llama4", "kanana2", "minimax-m2"): _GPT4O,
    ("deepseek-llm",): ("[\r\n]", f"\\s?[{_LETTERS}]+", f"\\s?[{_SYMBOLS}]+", r"\s+$", f"[{_CJK}]+", r"\p{N}+"),
    ("deepseek-coder",): ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", f"[{_CJK}]+", r"\p{N}"),
    ("deepseek-v3", "hunyuan-dense"): _DEEPSEEK3,
    ("falcon",): (r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"),
    ("default",): (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    ("bloom", "poro-chat", "gpt3-finnish"): (_BLOOM,),
    ("viking",): (_BLOOM, r"\p{N}"),
}
PRE_TOKENIZERS = {name: splits for names, splits in _SPLITS.items() for name in names}
# whose words that are tokens are not merged from smaller ones, and texts begin with a start token if no field says so
_WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken")
_PIECES = ("tokenizer.model", "spiece.model")  # SentencePiece's
# none begins with a space, which transformers drops in its Llama on purpose
_SAMPLE = (
    *("The rank of the correct token", "two  spaces", "at the end ", "a line\n  another\tone", "1234567 and 3.14"),
    *("naïve façade", "ﬁne ①② Ａ", "東京 は 😀", "def f(x):\n    return x"),
)
# fields that cut no text, and fields of tokens that only chats and infilling use
_IRRELEVANT = re.compile(
    r"chat_template.*|huggingface\.json|ggml\.(tokens|token_type|merges|scores|model|pre|add_bos_token|add_eos_token|"
    r"(bos|eos|unknown|padding|eot|eom|seperator|mask|cls|prefix|suffix|middle|fim_[a-z]+)_token_id)"
)


@contextmanager
def panic_as_error() -> Iterator[None]:
    """Raise a panic of the library tokenizers, which is no Exception, as RuntimeError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(str(error)) from None


def must_not_draw(tokenizer: Any, where: str) -> None:
    """Raise DataError for a tokenizer that cuts one text otherwise each time, as some do in a training."""
    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    for setting in ("dropout", "alpha"):
        if value := getattr(model, setting, None):
            fault = f"the tokenizer draws its tokens: {setting} is {value:g}"
            raise DataError(fault, f"{where}, {tokenizer.name_or_path}", f"Set {setting} to null in tokenizer.json.")


def must_not_swell(tokenizer: Any, where: str) -> None:
    """Raise DataError for a tokenizer whose normalizer makes a long text of a short one, step by step."""
    normalizer = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
    if normalizer is None:
        return
    text = normalizer.__getstate__().decode()  # which holds what its steps replace
    most = 64 * len(text)
    for step in _steps(normalizer):
        text = step.normalize_str(text)
        if len(text) > most:
            fault = "the tokenizer's normalizer makes a text more than 64 times as long"
            raise DataError(fault, f"{where}, {tokenizer.name_or_path}", "Check normalizer in tokenizer.json.")


def _steps(normalizer: Any) -> Iterator[Any]:
    from tokenizers.normalizers import Sequence

    if isinstance(normalizer, Sequence):
        for i in range(len(normalizer)):
            yield from _steps(normalizer[i])
    else:
        yield normalizer


def without_token(tokenizer: Any, logits: int) -> int:
    """Count the logits, of so many, that belong to no token of the tokenizer."""
    tokens: set[int] = {*tokenizer.get_vocab().values()}
    return logits - sum(token < logits for token in tokens)


def raw_file(folder: Path) -> Path | None:
    """Return the file of a folder from which transformers reads the tokenizer whole, if there is one."""
    from transformers.tokenization_utils_base import get_fast_tokenizer_file

    name, config = "tokenizer.json", folder / "tokenizer_config.json"
    try:
        if config.is_file() and (versions := parse_json(config.read_bytes()).get("fast_tokenizer_files")):
            name = get_fast_tokenizer_file(versions)
    except (OSError, ValueError, TypeError, AttributeError):
        raise DataError(f"{config.name} is damaged", str(folder), "Save the tokenizer again.") from None
    return folder / name if (folder / name).is_file() else None


def files_of(folder: Path) -> list[Path]:
    """List the files in a folder that determine its tokenizer."""
    names = [*FILES, "merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"]
    if raw := raw_file(folder):
        names[0] = raw.name
    return [path for name in names if (path := folder / name).is_file()]


def verify_tokens(tokenizer: Any, folder: Path, name: str) -> Any:
    """Return the tokenizer, if it has all that cuts text from its file; else one made of the file, with a warning.

    The file is the `tokenizer.json` in its folder, or else SentencePiece's, which is followed or refused. What is equal
    in its parts cuts every text alike; whether texts get a start or end token, the tokenizer's configuration may say
    otherwise. name: what errors call the model. Raises DataError if the file cannot be read, or is not followed.
    """
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    if (file := raw_file(folder)) is None:
        for pieces in (path for path in map(folder.joinpath, _PIECES) if path.is_file()):
            _must_follow_pieces(tokenizer, pieces, name)
        return tokenizer
    try:
        with panic_as_error():
            raw = Tokenizer.from_file(str(file))
    except Exception as error:  # it has one kind, plain Exception
        raise DataError(f"cannot read the tokenizer: {first_line(error)}", name, "Save it again.") from None
    other = _other_parts(getattr(tokenizer, "backend_tokenizer", None), raw)
    if not other:
        words = {token.content for token in tokenizer.added_tokens_decoder.values() if not token.special}
        if more := sorted(words - {token.content for token in raw.get_added_tokens_decoder().values()}):
            log.warning("%s: texts are also cut at words that %s lacks: %s", name, file.name, and_more(more))
        return tokenizer
    kind = type(tokenizer).__name__
    log.warning("%s: %s is followed; transformers' %s has another %s", name, file.name, kind, and_more(other))
    raw.no_truncation()
    raw.no_padding()
    added = {
        key: tokenizer.init_kwargs[key] for key in ("add_bos_token", "add_eos_token") if key in tokenizer.init_kwargs
    }
    tokenizer_class: Any = PreTrainedTokenizerFast  # which is not typed
    return tokenizer_class(tokenizer_object=raw, truncation_side="right", **added, **tokenizer.special_tokens_map)


def _must_follow_pieces(tokenizer: Any, file: Path, name: str) -> None:
    """Raise DataError unless the tokenizer cuts as SentencePiece does by the file that it was made from."""
    try:
        from sentencepiece import SentencePieceProcessor

        processor = SentencePieceProcessor(model_file=str(file))
    except (ImportError, RuntimeError, OSError):  # tiktoken's file has the same name, and is read without SentencePiece
        log.warning("%s: how text is cut is not compared with %s, which is not SentencePiece's", name, file.name)
        return
    unknown = processor.id_to_piece(processor.unk_id())
    for text in _SAMPLE:
        expected = _once(map(processor.id_to_piece, processor.encode(text)), unknown)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        tokens = _once(tokenizer.convert_ids_to_tokens(ids), tokenizer.unk_token)
        if tokens != expected:
            fault = f"transformers' {type(tokenizer).__name__} does not cut {text!r} as {file.name} says"
            remedy = "Give the folder of a tokenizer that has its tokenizer.json: --tokenizer FOLDER."
            raise DataError(f"{fault}: {' '.join(tokens)} for {' '.join(expected)}", name, remedy)


def _once(tokens: Iterable[str], unknown: str | None) -> list[str]:
    """Return the tokens, with one for each run of unknown ones, which programs count in their own ways."""
    pieces = ["" if token == unknown else token for token in tokens]
    return [token for i, token in enumerate(pieces) if token or pieces[i - 1 : i] != [""]]


def _other_parts(backend: Any, raw: Any) -> list[str]:
    """List the parts that cut text and differ between a tokenizer and its file; added tokens may be more."""
    if backend is None:
        return ["program"]
    loaded, stated = (parse_json(program.to_str()) for program in (backend, raw))
    other = [part for part in ("normalizer", "pre_tokenizer", "model") if loaded.get(part) != stated.get(part)]
    tokens = [[{**token, "special": None} for token in parts.get("added_tokens", [])] for parts in (loaded, stated)]
    return other if all(token in tokens[0] for token in tokens[1]) else [*other, "added token"]


def cut_as_stated(tokenizer: Any, fields: dict[str, Any], name: str) -> Any:
    """Make transformers' tokenizer of a GGUF file cut words as its fields say, in llama.cpp's meaning.

    fields: those of the tokenizer, without "tokenizer.". Raises DataError for one that nothing here gives a meaning to.
    """
    from tokenizers import Regex, pre_tokenizers

    backend, left = tokenizer.backend_tokenizer, {key for key in fields if not _IRRELEVANT.fullmatch(key)}
    kind, pre = fields.get("ggml.model"), fields.get("ggml.pre")
    if kind == "gpt2":
        if pre not in PRE_TOKENIZERS:
            fault = f"it is not known how the tokenizer in the GGUF file cuts text into words ({pre})"
            raise DataError(fault, f"{name}, tokenizer.ggml.pre", _BY_HAND)
        splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in PRE_TOKENIZERS[pre]]
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
        backend.model.ignore_merges = pre in _WHOLE_WORDS
        if pre in _WHOLE_WORDS and "ggml.add_bos_token" not in fields:
            tokenizer.add_bos_token = True
        left.discard("ggml.add_space_prefix")  # of words that begin with a space this says nothing
    elif kind == "llama":
        if pre not in (None, "default"):
            raise DataError(f"the tokenizer in the GGUF file is of an unknown kind (llama, {pre})", name, _BY_HAND)
        first = backend.encode("a", add_special_tokens=False).tokens[:1]
        spaced = bool(first) and first[0].startswith("▁")
        if fields.get("ggml.add_space_prefix", True) == spaced:
            left.discard("ggml.add_space_prefix")
        else:
            left.add("ggml.add_space_prefix")
    else:
        raise DataError(f"tokenizers of the kind {kind} are not read from GGUF files", name, _BY_HAND)
    for key in ("ggml.add_sep_token", "ggml.remove_extra_whitespaces"):
        if fields.get(key) is False:
            left.discard(key)
    if left:
        fault = f"transformers passes over {and_more(sorted(f'tokenizer.{key}' for key in left))} of the GGUF file"
        raise DataError(fault, name, _BY_HAND)
    return tokenizer


def saved_digest(tokenizer: Any) -> str:
    """Digest the files of a tokenizer as saved; what the code of a caller's own class does, its tokens have to show."""
    with TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return fingerprint(files_of(Path(folder)))
