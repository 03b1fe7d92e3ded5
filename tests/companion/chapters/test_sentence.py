"""Type a sentence, in a browser, from a file: its tokens, ranks and cross-entropies are those of Python."""

import json
import shutil
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from draws import loop_and_slow
from playwright.sync_api import Browser, Page, expect
from safetensors.numpy import load_file
from tabs import PHONE, STATIC, STYLE, watched, write_page
from tokenizers import Tokenizer

from companion.chapters import see
from companion.project import LADDER
from ladder.measuring import measure
from ladder.ranking import evaluation_documents
from ladder.shipped import RANKS
from ladder.shipping import RESOLUTION
from rbp.errors import DataError, ParameterError
from rbp.extract.protocol import Row
from rbp.extract.store import MANIFEST, open_store

SCRIPTS = ("neox.js", "charts.js", "sentence.js")
TEXT = "The court of the United States, which was in the city, held that it was not."
DOMAINS = ("wikipedia", "humaneval", "hotpotqa", "auslegal")
RUNGS = see.find_rungs()
TOKENIZER = Tokenizer.from_file(str(see.tokenizer_file()))
PATIENCE = 120_000  # milliseconds that a busy machine may take
NEAR = 1e-4  # logits of two programs this near may stand in another order


BARE = """
const brought = {}, models = {}, sentence = { take: (file, what) => { brought[file] = what; } };
async function weights(file) {
  if (!brought[file]) await new Promise((then) => {
    const script = document.createElement("script");
    Object.assign(script, { src: `weights/${file}`, onload: then });
    document.head.append(script);
  });
  return brought[file];
}
async function model(file) {
  const { shape } = await weights(file);
  return models[file] ??= new neox.Model(shape, await neox.unpack(brought[file]));
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """page.html, the sentence as its chapter shows it; bare.html, the arithmetic alone; and the weights of both."""
    folder = tmp_path_factory.mktemp("sentence")
    weights = see.write_weights(RUNGS, folder / "weights")
    body = see.sentence(TEXT, see.read(TEXT, RUNGS), weights, "weights")
    write_page(folder, body, *SCRIPTS)
    start = f"const tokenizer = new neox.Tokenizer({json.dumps(see.tokenizer_data())});"
    bare = (
        f'<meta charset="utf-8"><script src="{(STATIC / "neox.js").as_uri()}"></script><script>{start}{BARE}</script>'
    )
    (folder / "bare.html").write_text(f"<!doctype html><html><head>{bare}</head></html>")
    return folder


@pytest.fixture(scope="module")
def bare(browser: Browser, folder: Path) -> Iterator[Page]:
    tab = browser.new_page()
    tab.set_default_timeout(PATIENCE)
    tab.goto((folder / "bare.html").as_uri())
    yield tab
    tab.close()


# The tokenizer


def drawn_texts(count: int) -> list[str]:
    """Texts of words, digits, signs, white space and letters of many scripts, and of any code points."""
    rng = np.random.default_rng(11)
    pieces = [
        *" \n\t\r\u00a0\u0085\u2028\u3000\ufeff\u200b",
        "'s",
        "'ll",
        "'S",
        "<|endoftext|>",
        "<|endoftext",
        "  ",
        "\n\n",
    ]
    pieces += [
        *"aZ09.,!?'\"(){}[]<>=+-*/\\_#@éßñ中文字日本語한국어ру́сский٣५½²ⅷ👍🏽👨\u200d👩e\u0301ﬁ",
        "the",
        " and",
        "return",
    ]
    found = []
    for _ in range(count):
        some = [pieces[i] for i in rng.integers(len(pieces), size=rng.integers(0, 30))]
        wild = [chr(each) for each in rng.integers(0x110000, size=rng.integers(0, 4)) if not 0xD800 <= each < 0xE000]
        found.append("".join(rng.permutation(np.array([*some, *wild], dtype=object)).tolist()))
    return found


TOKENIZE = """texts => texts.map(text => {
  const ids = tokenizer.encode(text), bytes = ids.flatMap(id => [...tokenizer.bytes[id]]);
  return [ids, new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes))];
})"""


@pytest.mark.parametrize("count", loop_and_slow(500, 40_000))
def test_tokens_are_those_of_tokenizers(bare: Page, count: int) -> None:
    texts = drawn_texts(count)
    # a browser may know letters that are younger than Python, and than the tokenizers
    unknown = [sign for sign in sorted(set("".join(texts))) if unicodedata.category(sign) == "Cn"]
    younger = set(bare.evaluate("signs => signs.filter(sign => !/\\p{Cn}/u.test(sign))", unknown))
    texts = [text for text in texts if not younger & set(text)]
    assert len(texts) > 0.9 * count
    found = bare.evaluate(TOKENIZE, texts)
    for text, right, (ids, back) in zip(texts, TOKENIZER.encode_batch(texts), found, strict=True):
        assert ids == right.ids, repr(text)
        assert back == text


@pytest.mark.parametrize("every", loop_and_slow(100, 1))
def test_a_character_is_of_the_same_class(bare: Page, every: int) -> None:
    """Between letters, digits and spaces, how the words are cut shows what a character is taken for."""
    signs = [sign for sign in map(chr, range(0x110000)) if unicodedata.category(sign) not in ("Cn", "Co", "Cs")]
    texts = [f"a{sign}a 1{sign}1 {sign} " for sign in signs[::every]]
    found = bare.evaluate("texts => texts.map(text => tokenizer.encode(text))", texts)
    assert found == [right.ids for right in TOKENIZER.encode_batch(texts)]


def test_a_character_of_several_tokens_is_shown_with_the_last(bare: Page) -> None:
    shown = bare.evaluate("text => tokenizer.shown(tokenizer.encode(text))", "a 👍b")
    assert "".join(each for each in shown if not each.startswith("⟨")) == "a 👍b"
    assert any(each.startswith("⟨") for each in shown)


# The models


def test_weights_arrive_without_loss(bare: Page) -> None:
    rung = RUNGS[0]
    unpacked = """async file => Object.fromEntries(
      Object.entries(await neox.unpack(await weights(file))).map(([name, values]) => [name, [...values]]))"""
    found = bare.evaluate(unpacked, rung.script)
    right = load_file(rung.folder / "model.safetensors")
    assert {f"gpt_neox.{name}".replace("gpt_neox.embed_out", "embed_out") for name in found} == set(right)
    for name, values in right.items():
        assert found[name.removeprefix("gpt_neox.")] == values.astype("float64").ravel().tolist(), name


READ = """async ([file, text]) => {
  const one = await model(file), ids = tokenizer.encode(text).slice(0, one.shape.context);
  one.keep(ids);
  for (const id of ids.slice(one.ids.length)) one.read(id);
  const truths = ids.slice(1), ranks = truths.map((id, i) => neox.rank(one.logits[i], id));
  return [ids, ranks, truths.map((id, i) => neox.logTotal(one.logits[i], 1) - one.logits[i][id])];
}"""


def alone(model: Any, ids: list[int]) -> np.ndarray[Any, Any]:
    """Of each ranked token, whether no other logit lies within NEAR of its own."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, :-1]
    truth = logits.gather(1, torch.tensor(ids)[1:, None])
    return (((logits - truth).abs() <= NEAR).sum(1) == 1).numpy()


def passages(count: int) -> list[tuple[str, int, str]]:
    """Evaluation documents drawn by a seed, `count` of each domain or all that it has: domain, index, text."""
    rng = np.random.default_rng(5)
    found = []
    for domain in DOMAINS:
        documents = evaluation_documents(domain)
        for i in rng.choice(len(documents), min(count, len(documents)), replace=False).tolist():
            found.append((domain, i, documents[i].text[:4000]))
    return found


@pytest.mark.parametrize("drawn_from", loop_and_slow((RUNGS[::3], 1), (RUNGS, 25)))
def test_ranks_of_drawn_passages_are_those_of_the_projects_ranker(
    bare: Page, drawn_from: tuple[list[see.Shipped], int], record_property: Any
) -> None:
    (rungs, count), compared, near = drawn_from, 0, 0
    drawn = passages(count)
    for rung in rungs:
        model = see.load(rung).model
        for domain, i, text in drawn:
            ids, ranks, nll = bare.evaluate(READ, [rung.script, text])
            right = measure(model, [Row(0, 0, np.asarray(ids), np.arange(1, len(ids)))])
            sure = alone(model, ids)
            wrong = (np.asarray(ranks) != right.greater + right.equal) & sure
            assert not wrong.any(), (rung.name, domain, i, np.flatnonzero(wrong))
            assert np.abs(np.asarray(nll) - right.nll).max() < 1e-4, (rung.name, domain, i)
            compared, near = compared + len(sure), near + int((~sure).sum())
    record_property("compared", compared)
    record_property("near", near)
    assert compared > len(rungs) * 4 * 50 * count
    assert near < 0.1 * compared, "others are counted: bytes that no text held have nearly equal scores"


@pytest.mark.parametrize("every", loop_and_slow(9, 1))
def test_ranks_of_drawn_passages_are_those_of_the_shipped_stores(bare: Page, every: int) -> None:
    rungs = {rung.name: rung for rung in RUNGS}
    shipped = [open_store(path.parent) for path in sorted((LADDER / RANKS).glob(f"*/*/{MANIFEST}"))]
    stores = [store for store in shipped if store.model in rungs]
    assert stores
    drawn = passages(2 if every == 1 else 1)
    for store in stores[::every]:
        rung, ranks = rungs[store.model], store.ranks()
        model = see.load(rung).model
        for _, i, text in (each for each in drawn if each[0] == store.dataset):
            ids, found, nll = bare.evaluate(READ, [rung.script, text])
            mine = ranks[ranks["document"] == i].head(len(ids) - 1)
            same = np.cumprod(mine["token"].to_numpy() == ids[1 : len(mine) + 1]).astype(bool)  # the text may be cut
            assert same.sum() > len(same) - 5
            sure = alone(model, ids)[: len(mine)] & same
            assert (np.asarray(found)[: len(mine)] == mine["greater"] + mine["equal"])[sure].all(), (
                store.folder.name,
                i,
            )
            assert np.abs(np.asarray(nll)[: len(mine)] - mine["nll"])[same].max() < 1e-4 + 0.5 / RESOLUTION


def test_typing_on_gives_what_reading_anew_gives(bare: Page) -> None:
    """What is kept of a common beginning is the same to the last bit, and is kept."""
    grown = """async ([file, texts]) => {
      const { shape } = await weights(file), unpacked = await neox.unpack(brought[file]);
      const one = new neox.Model(shape, unpacked);
      let kept = [];
      for (const text of texts) {
        const ids = tokenizer.encode(text), anew = new neox.Model(shape, unpacked);
        one.keep(ids);
        kept.push(one.ids.length);
        for (const id of ids.slice(one.ids.length)) one.read(id);
        for (const id of ids) anew.read(id);
        const other = one.logits.some((row, i) => row.some((z, j) => z !== anew.logits[i][j]));
        if (other || one.ids.join() !== ids.join()) return null;
      }
      return kept;
    }"""
    texts = ["The court", "The court held", "The court held that", "The cat held", "", "The"]
    kept = bare.evaluate(grown, [RUNGS[1].script, texts])
    assert kept is not None
    assert kept[1] == len(TOKENIZER.encode(texts[0]).ids)
    assert kept[4] == 0


# The page


@pytest.fixture
def asked() -> list[str]:
    """The weights that the page has asked for."""
    return []


@pytest.fixture(params=[{}])
def tab(request: pytest.FixtureRequest, browser: Browser, folder: Path, asked: list[str]) -> Iterator[Page]:
    """The page; what fails in it, or leaves it, fails the test."""
    address, options = (folder / "page.html").as_uri(), request.param | {"offline": True}
    inside = (folder.as_uri(), STATIC.as_uri(), STYLE.as_uri(), "about:")
    with watched(browser, "about:blank", *inside, **options) as tab:
        tab.context.set_default_timeout(PATIENCE)
        tab.on("request", lambda each: asked.append(Path(each.url).stem) if "/weights/" in each.url else None)
        tab.goto(address)
        yield tab


SHOWN = """() => Object.fromEntries([...document.querySelectorAll('.rbp-sentence-card')].map(card => {
  const buttons = [...card.querySelectorAll('.rbp-sentence-text button')];
  return [card.dataset.model, buttons.map(button => [button.firstChild.textContent, button.lastChild.textContent])];
}))"""
SUMMARY = """() => Object.fromEntries([...document.querySelectorAll('tr[data-model]')].map(row => [row.dataset.model,
  [...row.querySelectorAll('data')].map(each => Number(each.value))]))"""


def said(tab: Page, text: str) -> None:
    """The page comes to say so."""
    expect(tab.get_by_role("status")).to_contain_text(text, timeout=PATIENCE)


def agrees(tab: Page, text: str, temperature: float = 1.0, chosen: tuple[str, ...] = see.FIRST) -> None:
    """The page shows Python's ranks of a text, its shares, and its cross-entropy."""
    found = {each.rung.name: each for each in see.read(text, [rung for rung in RUNGS if rung.label in chosen])}
    tokens = len(next(iter(found.values())).ids)
    said(tab, f"{tokens - 1} tokens ranked by {len(chosen)} models")
    shown, summary = tab.evaluate(SHOWN), tab.evaluate(SUMMARY)
    assert set(shown) == set(summary) == set(found)
    for name, each in found.items():
        first, *ranks, after = (rank for _, rank in shown[name])
        assert (first, after) == ("–", "next")
        ranks, sure = np.asarray(list(map(int, ranks))), alone(see.load(each.rung).model, each.ids.tolist())
        assert (ranks == each.ranks()[0])[sure].all()
        *shares, cost = summary[name]
        assert shares == [float((ranks <= k).mean()) for k in (1, 10, 100)]
        assert cost == pytest.approx(each.cross_entropy(temperature), abs=1e-4)


def test_it_opens_with_the_ranks_of_python_and_loads_no_weights(tab: Page, asked: list[str]) -> None:
    agrees(tab, TEXT)
    assert asked == []
    tab.get_by_label("2.7m").check()
    agrees(tab, TEXT, chosen=(*see.FIRST, "2.7m"))
    assert asked == [], "of the first text all ranks are there"


def test_a_text_is_ranked_as_it_is_typed(tab: Page, asked: list[str]) -> None:
    box = tab.get_by_label("Your text")
    box.focus()
    tab.keyboard.press("Control+End")
    tab.keyboard.type(" The judge said")
    agrees(tab, f"{TEXT} The judge said")
    assert asked == [rung.name for rung in RUNGS if rung.label in see.FIRST]
    box.fill("x = [1, 2]\nfor é in x:\n    print('中文 👍')")
    agrees(tab, "x = [1, 2]\nfor é in x:\n    print('中文 👍')")
    box.fill("a")
    said(tab, "Type more")
    box.fill("")
    said(tab, "Type more")
    tab.get_by_label("or an example").select_option("a question")
    agrees(tab, see.EXAMPLES["a question"])


def test_a_long_text_is_read_up_to_the_context(tab: Page) -> None:
    expect(tab.locator("#rbp-sentence-limit")).to_contain_text(
        "At most 1,500 characters, and of these the first 256 tokens"
    )
    text = "The court held that it was not so. " * 60
    tab.get_by_label("Your text").fill(text)
    left = len(TOKENIZER.encode(text[: see.LONGEST]).ids) - RUNGS[0].context
    said(tab, "255 tokens ranked by 3 models")
    over = f"The last {len(text) - see.LONGEST} characters are left out. The last {left} tokens are left out."
    expect(tab.locator("#rbp-sentence-limit")).to_contain_text(over)
    agrees(tab, text)


def test_a_model_that_is_quoted_is_ticked(tab: Page) -> None:
    found = see.read(TEXT, RUNGS)
    quoted = see.count_models(found, {rung.name: 1 for rung in RUNGS})
    sizes = {quoted["size.smaller"], quoted["size.larger"]}
    ticked = [each.rung.label for each in found if each.size in sizes]
    assert len(ticked) == 2
    for label in ticked:
        expect(tab.get_by_role("checkbox", name=f"{label} (")).to_be_checked()
    last = next(each for each in found if each.size == quoted["size.larger"])
    told = {key: value for values, _ in see.rank_statistics(found) for key, value in values.items()}
    assert told["rbp1.larger"] == (np.asarray(last.ranks()[0]) == 1).mean()
    assert [told[f"cross_entropy.larger.t{t}"] for t in (1, 2)] == [last.cross_entropy(t) for t in (1, 2)]


def folder_of(tab: Page) -> list[Path]:
    return sorted((Path(urlsplit(tab.url).path).parent / "weights").glob("*.js"))


def test_what_is_typed_is_text(tab: Page) -> None:
    evil = "<img src=x onerror='window.hurt = 1'></script><script>window.hurt = 1</script>"
    tab.get_by_label("Your text").fill(evil)
    agrees(tab, evil)
    assert tab.evaluate("[window.hurt, document.querySelectorAll('.rbp-sentence img').length]") == [None, 0]


def test_the_size_of_the_weights_is_said_before_they_load(tab: Page, asked: list[str]) -> None:
    said_so = tab.locator("#rbp-sentence-loads")
    bytes_of = {path.stem: path.stat().st_size for path in folder_of(tab)}
    first = sum(bytes_of[rung.name] for rung in RUNGS if rung.label in see.FIRST)
    expect(said_so).to_contain_text(f"Not loaded yet: 10k, 59k, 390k, {first / 1e6:.1f} MB")
    assert asked == []
    tab.get_by_label("Your text").fill("The court held")
    agrees(tab, "The court held")
    expect(said_so).to_have_text("The models that are ticked are loaded.")


def test_temperature_moves_cross_entropy_and_no_rank(tab: Page) -> None:
    before = tab.evaluate(SHOWN)
    slider = tab.get_by_label("Temperature")
    slider.press("End")
    expect(tab.get_by_label("The text by each model")).to_contain_text("T = 4.00", timeout=PATIENCE)
    agrees(tab, TEXT, temperature=4.0)
    assert tab.evaluate(SHOWN) == before
    slider.press("Home")
    expect(tab.get_by_label("The text by each model")).to_contain_text("T = 0.25", timeout=PATIENCE)
    agrees(tab, TEXT, temperature=0.25)
    assert tab.evaluate(SHOWN) == before


TOP = """() => [...document.querySelectorAll('.rbp-sentence-top table')].map(table => [table.caption.textContent,
  [...table.rows].map(row => [...row.cells].map(cell => cell.textContent))])"""


def top(tab: Page, at: int, text: str) -> None:
    """The page shows the top ten of each model at a token, and the token itself."""
    for (caption, rows), each in zip(
        tab.evaluate(TOP), see.read(text, [rung for rung in RUNGS if rung.label in see.FIRST]), strict=True
    ):
        best = torch.softmax(each.logits[at - 1].double(), 0).topk(10)
        words = [TOKENIZER.decode([token], skip_special_tokens=False) for token in best.indices.tolist()]
        shown = [row[1].removesuffix(" ◂ the text").replace("\u00a0", " ") for row in rows[:10]]
        assert [one for one, word in zip(shown, words, strict=True) if "�" not in word] == [
            word.replace("\n", "↵").replace("\t", "⇥") for word in words if "�" not in word
        ]
        for row, p in zip(rows, best.values.tolist(), strict=False):
            assert float(row[2].rstrip("%")) == pytest.approx(100 * p, abs=0.51 if p >= 0.0995 else 0.051)
        if at < len(each.ids):
            rank = each.ranks()[0][at - 1]
            assert caption.endswith(f"has rank {rank:,}")
            assert [row[0] for row in rows if "the text" in row[1]] == [f"{rank:,}"]
        else:
            assert caption == "What comes next"


def test_the_top_ten_by_click_and_by_keyboard(tab: Page) -> None:
    buttons = tab.locator(".rbp-sentence-text").first.locator("button")
    buttons.nth(3).click()
    top(tab, 3, TEXT)
    for key, at in (("ArrowRight", 4), ("ArrowRight", 5), ("ArrowLeft", 4), ("End", -1), ("Home", 1)):
        tab.keyboard.press(key)
        top(tab, at if at > 0 else buttons.count() - 1, TEXT)
    tab.keyboard.press("ArrowDown")
    card = "document.activeElement.closest('.rbp-sentence-card').dataset.model"
    assert tab.evaluate(card) == "neox-59k-at-8m"
    assert tab.locator(".rbp-sentence-text button[tabindex='0']").count() == 3, "one stop of the tab key for each model"
    assert tab.locator(":focus").get_attribute("aria-label") is not None
    # the same once JavaScript ranks
    tab.get_by_label("Your text").fill(f"{TEXT} And")
    agrees(tab, f"{TEXT} And")
    buttons.nth(6).click()
    top(tab, 6, f"{TEXT} And")
    tab.keyboard.press("End")
    top(tab, len(TOKENIZER.encode(f"{TEXT} And").ids), f"{TEXT} And")


@pytest.mark.parametrize("tab", [PHONE | {"color_scheme": "dark"}], indirect=True)
def test_on_a_phone_by_touch(tab: Page) -> None:
    tab.locator(".rbp-sentence-text").nth(1).locator("button").nth(4).tap()
    top(tab, 4, TEXT)
    tab.get_by_label("22k").tap()
    agrees(tab, TEXT, chosen=("10k", "22k", "59k", "390k"))
    tab.get_by_label("Your text").fill("Supercalifragilistic" * 20)
    said(tab, "ranked by 4 models")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_every_control_has_a_label(tab: Page) -> None:
    controls = "document.querySelectorAll('.rbp-sentence :is(input, select, textarea)')"
    assert tab.evaluate(f"{controls}.length") > 9
    assert tab.evaluate(f"[...{controls}].filter(e => !e.labels?.length).length") == 0


def test_weights_that_are_missing_are_said_to_be(browser: Browser, folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "page.html", tmp_path)
    tab = browser.new_page()
    tab.goto((tmp_path / "page.html").as_uri())
    tab.get_by_label("Your text").fill("Another text")
    expect(tab.get_by_role("alert").filter(has_text="not load")).to_contain_text(
        "lie in the folder weights, which belongs beside this page"
    )
    tab.close()


# What Python does


def test_the_scripts_keep_to_their_weight(folder: Path) -> None:
    sizes = {rung.label: (folder / "weights" / rung.script).stat().st_size for rung in RUNGS}
    assert sum(sizes[label] for label in see.FIRST) <= 6e6
    assert sum(sizes.values()) <= 24e6


def test_the_same_ranks_as_the_ranker() -> None:
    (read,) = see.read(TEXT, RUNGS[2:3])
    ids = read.ids.numpy()
    right = measure(see.load(RUNGS[2]).model, [Row(0, 0, ids, np.arange(1, len(ids)))], (2.0,))
    assert read.ranks()[0] == (right.greater + right.equal).tolist()
    assert read.ranks()[1] == pytest.approx(right.nll.tolist(), abs=1e-5)
    assert read.cross_entropy(2.0) == pytest.approx(float(right.tempered.mean()), abs=1e-5)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="fewer than two tokens"):
        see.read("a", RUNGS[:1])
    with pytest.raises(DataError, match="weights of the GPT-NeoX family are missing"):
        see.find_rungs(tmp_path)
