"""Type a sentence, in a browser, from a file: its tokens, ranks and cross-entropies are those of Python."""

import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch
from draws import loop_and_slow
from playwright.sync_api import expect
from tabs import STATIC, STYLE, watched, write_page
from tokenizers import Tokenizer

from companion.chapters import see

SCRIPTS = ("neox.js", "charts.js", "sentence.js")
TEXT = "The court of the United States, which was in the city, held that it was not."
RUNGS = see.find_rungs()
TOKENIZER = Tokenizer.from_file(str(see.tokenizer_file()))
PATIENCE = 120_000  # milliseconds that a busy machine may take
NEAR = 1e-4  # logits of two programs this near may stand in another order


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """page.html, the sentence as its chapter shows it, and the weights."""
    folder = tmp_path_factory.mktemp("sentence")
    weights = see.write_weights(RUNGS, folder / "weights")
    write_page(folder, see.sentence(TEXT, see.read_text(TEXT, RUNGS), weights, "weights"), *SCRIPTS)
    return folder


@pytest.fixture
def asked():
    """The weights that the page has asked for."""
    return []


@pytest.fixture
def tab(browser, folder, asked):
    """The page; what fails in it, or leaves it, fails the test."""
    inside = (folder.as_uri(), STATIC.as_uri(), STYLE.as_uri(), "about:")
    with watched(browser, "about:blank", *inside, offline=True) as tab:
        tab.context.set_default_timeout(PATIENCE)
        tab.on("request", lambda each: asked.append(Path(each.url).stem) if "/weights/" in each.url else None)
        tab.goto((folder / "page.html").as_uri())
        yield tab


def drawn_texts(count):
    """Texts of words, digits, signs, white space and letters of many scripts, and of any code points."""
    rng = np.random.default_rng(11)
    signs = " \n\t\r\u00a0\u0085\u2028\u3000\ufeff\u200baZ09.,!?'\"(){}[]<>=+-*/\\_#@éßñ中文字日本語한국어"
    signs += "ру́сский٣५½²ⅷ👍🏽👨\u200d👩e\u0301ﬁ"
    pieces = [*signs, "'s", "'ll", "'S", "<|endoftext|>", "<|endoftext", "  ", "the", " and", "return"]
    found = []
    for _ in range(count):
        some = [pieces[i] for i in rng.integers(len(pieces), size=rng.integers(0, 30))]
        wild = [chr(each) for each in rng.integers(0x110000, size=rng.integers(0, 4)) if not 0xD800 <= each < 0xE000]
        found.append("".join(rng.permutation(np.array([*some, *wild], dtype=object)).tolist()))
    return found


TOKENIZE = """([data, texts]) => { const tokenizer = new neox.Tokenizer(data); return texts.map(text => {
  const ids = tokenizer.encode(text), bytes = ids.flatMap(id => [...tokenizer.bytes[id]]);
  return [ids, new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes))];
}); }"""


@pytest.mark.parametrize("count", loop_and_slow(500, 40_000))
def test_tokens_are_those_of_tokenizers(tab, count):
    texts = drawn_texts(count)
    # a browser may know letters that are younger than Python, and than the tokenizers
    unknown = [sign for sign in sorted(set("".join(texts))) if unicodedata.category(sign) == "Cn"]
    younger = set(tab.evaluate("signs => signs.filter(sign => !/\\p{Cn}/u.test(sign))", unknown))
    texts = [text for text in texts if not younger & set(text)]
    assert len(texts) > 0.9 * count
    found = tab.evaluate(TOKENIZE, [see.tokenizer_data(), texts])
    for text, right, (ids, back) in zip(texts, TOKENIZER.encode_batch(texts), found, strict=True):
        assert ids == right.ids, repr(text)
        assert back == text


def alone(model, ids):
    """Of each ranked token, whether no other logit lies within NEAR of its own."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, :-1]
    truth = logits.gather(1, torch.tensor(ids)[1:, None])
    return (((logits - truth).abs() <= NEAR).sum(1) == 1).numpy()


SHOWN = """() => Object.fromEntries([...document.querySelectorAll('.rbp-sentence-card')].map(card => {
  const buttons = [...card.querySelectorAll('.rbp-sentence-text button')];
  return [card.dataset.model, buttons.map(button => [button.firstChild.textContent, button.lastChild.textContent])];
}))"""
SUMMARY = """() => Object.fromEntries([...document.querySelectorAll('tr[data-model]')].map(row => [row.dataset.model,
  [...row.querySelectorAll('data')].map(each => Number(each.value))]))"""


def agrees(tab, text, temperature=1.0, chosen=see.FIRST):
    """The page shows Python's ranks of a text, its shares, and its cross-entropy."""
    found = {each.rung.name: each for each in see.read_text(text, [rung for rung in RUNGS if rung.label in chosen])}
    tokens = len(next(iter(found.values())).ids)
    said = f"{tokens - 1} tokens ranked by {len(chosen)} models"
    expect(tab.get_by_role("status")).to_contain_text(said, timeout=PATIENCE)
    shown, summary = tab.evaluate(SHOWN), tab.evaluate(SUMMARY)
    assert set(shown) == set(summary) == set(found)
    for name, each in found.items():
        _, *ranks, _ = (rank for _, rank in shown[name])
        ranks, sure = np.asarray(list(map(int, ranks))), alone(see.load_rung(each.rung).model, each.ids.tolist())
        assert (ranks == each.ranks()[0])[sure].all()
        assert sure.mean() > 0.5
        *shares, cost = summary[name]
        assert shares == [float((ranks <= k).mean()) for k in (1, 10, 100)]
        logits = each.logits[:-1].double() / temperature
        assert cost == pytest.approx(torch.nn.functional.cross_entropy(logits, each.ids[1:]).item(), abs=1e-4)


def test_it_opens_with_the_ranks_of_python_and_a_temperature_moves_none(tab, asked):
    agrees(tab, TEXT)
    assert asked == [], "of the first text all ranks are there"
    before = tab.evaluate(SHOWN)
    tab.get_by_label("Temperature").press("End")
    expect(tab.get_by_label("The text by each model")).to_contain_text("T = 4.00", timeout=PATIENCE)
    agrees(tab, TEXT, temperature=4.0)
    assert tab.evaluate(SHOWN) == before


def test_a_text_is_ranked_as_it_is_typed(tab, asked):
    box = tab.get_by_label("Your text")
    box.focus()
    tab.keyboard.press("Control+End")
    tab.keyboard.type(" The judge said")
    agrees(tab, f"{TEXT} The judge said")
    assert asked == [rung.name for rung in RUNGS if rung.label in see.FIRST]
    tab.get_by_label("2.7m").check()
    code = "x = [1, 2]\nfor é in x:\n    print('中文 👍')"
    evil = "<img src=x onerror='window.hurt = 1'></script><script>window.hurt = 1</script>"
    for text in (code, evil):
        box.fill(text)
        agrees(tab, text, chosen=(*see.FIRST, "2.7m"))
    assert tab.evaluate("[window.hurt, document.querySelectorAll('.rbp-sentence img').length]") == [None, 0]
