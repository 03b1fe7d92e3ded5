"""Which tokens of a text are scored, in which rows, after which context."""

import datasets
import pytest
from tiny import make_tokenizer, texts
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rbp.errors import DataError
from rbp.extract.corpora import Corpus
from rbp.extract.protocol import document_order, opening, plan_rows, protocol


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
    for row in plan.rows:
        assert row.ids[: len(front)].tolist() == front
        assert min(row.scored) > len(front)  # never scored, nor what comes right after
        assert len(row.ids) <= 12
        for i in range(len(front), len(row.ids)):
            place = row.document, row.start + i
            assert places.setdefault(place, row.ids[i]) == row.ids[i]
    for document in (0, 1):
        ids = tokenizer(documents[document])["input_ids"]
        mine = [place for at, place in sorted(places) if at == document]
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


@pytest.mark.parametrize("name", ["authors", "windows"])
def test_special_tokens_in_a_text_are_tokens_or_text(name, caplog):
    tokenizer = make_tokenizer("<|end|> $A")
    tokenizer.split_special_tokens = True  # which is no part of a store's key
    corpus = Corpus("c", ["the rank<|end|> of<|end|>", "a token"])
    as_token = plan_rows(corpus, tokenizer, protocol(name))
    assert as_token.not_scored == {"first": 2, "special": 2, "after_special": 1}
    assert "--special text" in caplog.text
    caplog.clear()
    as_text = plan_rows(corpus, tokenizer, protocol(name, special="text"))
    assert as_text.not_scored == {"first": 2}
    assert not caplog.text
    first = next(row for row in as_text.rows if row.document == 0)
    assert tokenizer.decode(first.ids) == "<|end|>the rank<|end|> of<|end|>"
    assert len(first.scored) == len(first.ids) - 2
    assert first.ids.tolist().count(0) == 1


LONG = " ".join(texts(500, seed=8))
FEW = "<|end|>" * 30 + "a token"  # of which few tokens are scored: more of the text is read, until there is enough


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "template", "text", "budget", "read"),
    [
        ("authors", None, LONG, 100, 0.4),
        ("windows", "<|end|> $A <|end|>", LONG, 100, 0.2),
        ("windows", None, FEW * 300, 500, 1.5),
    ],
    ids=["authors", "windows", "few"],
)
def test_a_budget_reads_no_more_of_a_long_line_than_it_needs(name, template, text, budget, read, monkeypatch):
    """The rows are those of the whole text, cut by hand."""
    tokenizer = make_tokenizer(template)
    corpus, encode, characters = Corpus("c", [text, text[::-1]]), type(tokenizer).__call__, []

    def counted(self, texts, **options):
        characters.extend(map(len, texts))
        return encode(self, texts, **options)

    every = plan_rows(corpus, tokenizer, protocol(name, length=64))
    monkeypatch.setattr(type(tokenizer), "__call__", counted)
    some = plan_rows(corpus, tokenizer, protocol(name, length=64, tokens=budget))
    assert scored(some.rows) == scored(every.rows)[:budget]
    for one, other in zip(some.rows, every.rows, strict=False):
        assert one.ids.tolist() == other.ids[: len(one.ids)].tolist()
    assert 0 < sum(characters) < 2 * len(text) * read


def test_an_empty_tokenizer_is_told_from_a_short_text():
    empty = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()))
    for tokenizer, what in ((empty, "makes no tokens"), (make_tokenizer(), "two plain tokens")):
        with pytest.raises(DataError, match=what):
            plan_rows(Corpus("c", ["a"]), tokenizer, protocol("windows"))


def test_bytes_are_those_of_the_scored_tokens():
    """By hand: letters, accents and a character of four bytes, cut by a byte-level tokenizer into parts of them."""
    documents = ["the räñk 😀 of", "x😀😀", "a", "<|end|>the law"]
    tokenizer = make_tokenizer()
    for text, kept in (("whole", {}), ("a budget", {"tokens": 5})):
        plan = plan_rows(Corpus("c", documents), tokenizer, protocol("windows", length=12, **kept))
        raw = [tokenizer.backend_tokenizer.id_to_token(i) for row in plan.rows for i in row.ids[row.scored]]
        assert plan.bytes == sum(map(len, raw)), text  # in a byte-level vocabulary a token has a letter for each byte
    within = plan_rows(Corpus("c", ["😀😀"]), tokenizer, protocol("windows"))
    assert (within.tokens, within.bytes) == (7, 4)  # a character counts for the first of its tokens
