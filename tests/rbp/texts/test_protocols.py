"""Which tokens of a text are scored, in which rows, after which context."""

import datasets
import pytest
from tiny import make_tokenizer, texts
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rbp.errors import DataError
from rbp.texts.corpora import Corpus
from rbp.texts.protocol import document_order, opening, plan_rows, protocol


def scored(rows):
    """(document, position) of every scored token, in the order of the rows."""
    return [(row.document, row.start + int(p)) for row in rows for p in row.scored]


def test_authors_order_is_that_of_datasets():
    split = datasets.Dataset.from_dict({"i": list(range(5000))}).shuffle(seed=42)
    assert document_order(5000, protocol("authors")).tolist() == split["i"][:1000]


@pytest.mark.parametrize("template", [None, "<|end|> $A", "<|end|> $A <|end|>", "t a $A ."])
@pytest.mark.parametrize("bos", ["auto", "always", "never"])
@pytest.mark.parametrize("name", ["authors", "windows"])
def test_every_window_begins_alike(template, bos, name):
    """All tokens of a text are read in a document's order, each once, whatever is put before its windows."""
    tokenizer = make_tokenizer(template)
    own = tokenizer.convert_tokens_to_ids((template or "$A").split("$A")[0].split())
    front = {"auto": own, "always": own or [0], "never": []}[bos]
    assert opening(tokenizer, bos) == front
    documents = [*texts(2, longest=90), "a", ""]
    plan = plan_rows(Corpus("c", documents), tokenizer, protocol(name, length=12, bos=bos))
    places = {}
    after = len((template or "$A").split("$A")[1].split()) if name == "authors" else 0  # which the cut makes room for
    assert max(len(row.ids) for row in plan.rows) == 12 - after
    for row in plan.rows:
        assert row.ids[: len(front)].tolist() == front
        assert min(row.scored) > len(front)  # never scored, nor what comes right after
        assert len(row.ids) <= 12
        for i in range(len(front), len(row.ids)):
            place = row.document, row.start + i
            assert places.setdefault(place, row.ids[i]) == row.ids[i]
    for document in (0, 1):
        ids = tokenizer(documents[document])["input_ids"]
        mine = [place for number, place in sorted(places) if number == document]
        assert mine == [*range(len(own), len(own) + len(mine))]  # positions are those of the tokenizer's own output
        assert [int(places[document, place]) for place in mine] == ids[len(own) : len(own) + len(mine)]


def test_as_a_dictionary_the_usual_way_is_not_named():
    """So the digests of stores that were made before there was another way stay."""
    assert not {"bos", "special"} & protocol("windows").as_dict().keys()
    assert protocol("windows", bos="never", special="text").as_dict()["bos"] == "never"


@pytest.mark.parametrize("declared", [True, False])
def test_tokens_that_are_not_scored_are_counted_with_the_reason(declared, caplog):
    raw = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("b", -1.5), ("▁", -2.0)], unk_id=0))
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, **({"unk_token": "<unk>"} if declared else {}))
    plan = plan_rows(Corpus("c", ["ab é ab", "éab"]), tokenizer, protocol("windows"))
    # ▁ a b ▁ ? ▁ a b, then ▁ ? a b
    assert plan.not_scored == {"first": 2, "unknown": 2, "after_unknown": 2}
    assert plan.tokens == 12 - 6
    assert "2 unknown to the tokenizer, 2 after unknown ones" in caplog.text


def test_special_tokens_in_a_text_are_tokens_or_text(caplog):
    tokenizer = make_tokenizer("<|end|> $A")
    tokenizer.split_special_tokens = True  # which is not part of a store's key
    corpus = Corpus("c", ["the rank<|end|> of<|end|>", "a token"])
    as_token = plan_rows(corpus, tokenizer, protocol("windows"))
    assert as_token.not_scored == {"first": 2, "special": 2, "after_special": 1}
    assert "--special text" in caplog.text
    as_text = plan_rows(corpus, tokenizer, protocol("authors", special="text"))
    assert as_text.not_scored == {"first": 2}
    first = next(row for row in as_text.rows if row.document == 0)
    assert tokenizer.decode(first.ids) == "<|end|>the rank<|end|> of<|end|>"
    assert first.ids.tolist().count(0) == 1


LONG = " ".join(texts(500, seed=8))
FEW = "<|end|>" * 30 + "a token"  # of which few tokens are scored: more of the text is read, until there is enough


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "template", "text", "budget"),
    [("authors", None, LONG, 100), ("windows", "<|end|> $A <|end|>", LONG, 100), ("windows", None, FEW * 300, 500)],
    ids=["authors", "windows", "few"],
)
def test_a_budget_has_the_first_rows_of_the_whole_text(name, template, text, budget):
    corpus, tokenizer = Corpus("c", [text, text[::-1]]), make_tokenizer(template)
    every, some = (
        plan_rows(corpus, tokenizer, protocol(name, length=64, tokens=tokens)).rows for tokens in (None, budget)
    )
    assert scored(some) == scored(every)[:budget]
    for row, other in zip(some, every, strict=False):
        assert row.ids.tolist() == other.ids[: len(row.ids)].tolist()


def test_bytes_are_those_of_the_scored_tokens():
    """By hand: letters, accents and characters of several bytes, cut by a byte-level tokenizer into parts of them."""
    corpus, tokenizer = Corpus("c", ["the räñk 😀 of", "x😀😀", "a", "<|end|>the law"]), make_tokenizer()
    for budget in (None, 5):
        plan = plan_rows(corpus, tokenizer, protocol("windows", length=12, tokens=budget))
        raw = [tokenizer.backend_tokenizer.id_to_token(i) for row in plan.rows for i in row.ids[row.scored]]
        assert plan.bytes == sum(map(len, raw)), budget  # in a byte-level vocabulary a token has a letter for each byte


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


@pytest.mark.long
def test_a_budget_cuts_no_other_tokens_where_digits_are_grouped_from_the_right():
    pattern, text = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))", "1234567890" * 1_700
    tokenizer = make_tokenizer()
    raw = tokenizer.backend_tokenizer
    raw.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), BYTES])
    every, some = (
        plan_rows(Corpus("c", [text]), tokenizer, protocol("windows", length=64, tokens=tokens)).rows
        for tokens in (None, 5)
    )
    assert some[0].ids.tolist() == every[0].ids[: len(some[0].ids)].tolist()
    assert scored(some) == scored(every)[:5]


ODD = ["😀😀 fine", "東京は日本の首都", "  e\u0301té \t x ", "ﬁne ①② ㎞ ﷺ", "naïve<|end|>東"]


def as_bytes():
    return make_tokenizer("<|end|> $A <|end|>")


def as_pieces():
    """Pieces of characters, of bytes where there is none, of a text that is composed, without spaces at its ends."""
    letters = ["</s>", *"▁abcdefghijklmnopqrstuvwxyzé", *(f"<0x{i:02X}>" for i in range(256))]
    raw = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, [], byte_fallback=True))
    raw.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Replace(" ", "▁")])
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="</s>")  # noqa: S106


def as_words():
    raw = Tokenizer(models.WordLevel({"[UNK]": 0, "x": 1, "fine": 2, "</s>": 3}, "[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="[UNK]", eos_token="</s>")  # noqa: S106


@pytest.mark.parametrize(
    ("make", "text"),
    [*((make, text) for make in (as_bytes, as_pieces) for text in ODD), (as_words, " x  fine x  ")],
)
def test_the_bytes_of_all_tokens_of_a_document_add_up_to_its_own(make, text):
    every = {"bos": "always", "score": ["special", "first"]}
    assert plan_rows(Corpus("c", [text]), make(), protocol("windows", **every)).bytes == len(text.encode())


def test_what_a_tokenizer_draws_is_refused():
    dropping = make_tokenizer()
    dropping.backend_tokenizer.model.dropout = 0.001
    sampling = as_words()
    sampling.backend_tokenizer.model = models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0, alpha=0.1, nbest_size=9)
    for tokenizer, words in ((dropping, r"dropout is 0\.001"), (sampling, r"alpha is 0\.1")):
        with pytest.raises(DataError, match=words):
            plan_rows(Corpus("c", ["a rank of the law"]), tokenizer, protocol("windows"))


def test_a_tokenizer_that_fails_or_makes_far_too_much_of_a_text_is_refused():
    failing, doubling = make_tokenizer(), make_tokenizer()
    failing.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"(a+)+$b|(a|aa)+c"), "isolated")
    doubling.backend_tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("e", "ee")] * 40)
    for tokenizer, words in ((failing, "fails on a text: .*retry-limit"), (doubling, "more than 64 times as long")):
        with pytest.raises(DataError, match=words):
            plan_rows(Corpus("c", ["a" * 2000]), tokenizer, protocol("windows"))
