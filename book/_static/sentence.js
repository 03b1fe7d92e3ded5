// Type a sentence: the models of the page rank its tokens, by neox.js, as it is typed. Weights are scripts in a folder
// beside the page, which a file:// page may load too; they are fetched when a reader first asks for what needs them.
"use strict";

const sentence = (() => {
  const SLICE = 12; // milliseconds of arithmetic between two looks at the keyboard
  const TEN = 10, KS = [1, 10, 100];
  const PREFIX = "#sentence?"; // of what the page's address keeps: the text and the temperature

  const { html } = charts;
  const below = (k) => `RBP${String(k).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[digit])}`;
  const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}%`;
  const megabytes = (some) => `${(some.reduce((sum, { bytes }) => sum + bytes, 0) / 1e6).toFixed(1)} MB`;
  const counted = (number) => number.toLocaleString("en");
  const visible = (text) => text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "\u00a0");
  const quoted = (text) => `“${text.replaceAll("\n", "↵")}”`;

  const waiting = new Map(); // file -> what to call with what it brings
  // What a script of weights calls.
  function take(file, brought) { waiting.get(file)?.(brought); }

  function fetched(address, file) {
    return new Promise((done, failed) => {
      waiting.set(file, done);
      const script = html("script", { src: address });
      script.addEventListener("error", () => failed(new Error(`${file} did not load`)));
      script.addEventListener("load", () => script.remove());
      document.head.append(script);
    });
  }

  function start(root) {
    const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    const tokenizer = new neox.Tokenizer(data.tokenizer);
    const state = { text: data.text, temperature: 1, at: data.at };
    const cards = data.models.map((model) => ({ ...model, on: model.chosen, buttons: [], places: [] }));
    let ids = [], texts = [], turns = 0;
    const chosen = () => cards.filter(({ on }) => on);

    // ── What the models say: places[i] of a card is of token i; the place after the last token has no truth

    async function load(card) {
      if (card.model) return true;
      try {
        card.loading ??= fetched(`${data.folder}/${card.file}`, card.file)
          .then(async (brought) => new neox.Model(brought.shape, await neox.unpack(brought)));
        card.model = await card.loading;
        return true;
      } catch (error) {
        card.loading = null;
        problem.textContent = typeof DecompressionStream === "undefined"
          ? "This browser is too old to unpack the weights (it needs DecompressionStream, which came in 2023)."
          : `The weights of ${card.label} did not load. They lie in the folder ${data.folder}, which belongs beside this page. (${error.message})`;
        return false;
      }
    }

    const place = (logits, truth) => ({ logits, truth, rank: truth === undefined ? null : neox.rank(logits, truth), totals: new Map() });
    function total(spot) {
      if (!spot.totals.has(state.temperature)) {
        spot.totals.clear();
        spot.totals.set(state.temperature, neox.logTotal(spot.logits, state.temperature));
      }
      return spot.totals.get(state.temperature);
    }
    const cost = (spot, id) => total(spot) - spot.logits[id] / state.temperature; // −ln p
    // Shown before any weights are loaded: ranks computed by Python.
    const ranksAtFirst = (card) => [null, ...data.first[card.name].map(([rank, nll, top], i) => ({ truth: ids[i + 1], rank: rank ?? null, nll, top }))];
    const nllOf = (spot) => spot.nll ?? cost(spot, spot.truth);
    const topOf = (spot) => spot.top ?? (spot.highest ??= neox.top(spot.logits, TEN)).map((id) => [id, Math.exp(-cost(spot, id))]);

    // Read the new tokens, a slice at a time; typing starts another turn, which ends this one.
    async function run() {
      const turn = turns += 1, mine = chosen();
      const untouched = state.text === data.text && state.temperature === 1;
      let began = performance.now();
      const goesOn = async (card, done) => {
        if (performance.now() - began < SLICE) return true;
        progress.textContent = `${card.label}: ${percent(done)}`;
        await new Promise((then) => { setTimeout(then); });
        began = performance.now();
        return turn === turns;
      };
      status.textContent = problem.textContent = "";
      const missing = untouched ? [] : mine.filter(({ model }) => !model);
      announce();
      if (missing.length) progress.textContent = `loading ${missing.map(({ label }) => label).join(", ")} …`;
      missing.forEach(load);
      for (const card of mine) {
        if (untouched && !card.model) card.places = ranksAtFirst(card);
        else {
          if (!await load(card)) continue;
          if (turn !== turns) return;
          card.model.keep(ids);
          const places = [null];
          for (let i = 0; i < ids.length; i += 1) {
            if (card.model.ids.length <= i) card.model.read(ids[i]);
            const before = card.places[i + 1], logits = card.model.logits[i];
            places.push(before?.logits === logits && before.truth === ids[i + 1] ? before : place(logits, ids[i + 1]));
            total(places[i + 1]);
            if (!await goesOn(card, (i + 1) / ids.length)) return;
          }
          card.places = places;
        }
        card.ids = ids;
        card.texts = texts;
        draw(card);
      }
      progress.textContent = "";
      announce();
      const ready = mine.filter((card) => card.ids === ids);
      status.textContent = ids.length < 2 ? "Type more: the first token has nothing before it, so it has no rank."
        : `${counted(ids.length - 1)} tokens ranked by ${ready.length} models.`;
      showSummary(ready);
    }

    // ── Controls

    const id = (name) => `rbp-sentence-${name}`;
    const text = html("textarea", { id: id("text"), rows: 4, spellcheck: "false", "aria-describedby": id("limit") });
    text.value = state.text;
    const examples = html("select", { id: id("example") }, html("option", { value: "" }, "–"), ...Object.keys(data.examples).map((name) => html("option", {}, name)));
    const temperature = html("input", { type: "range", id: id("temperature"), min: -2, max: 2, step: 0.05, value: 0 });
    const temperatureReading = html("span");
    const status = html("p", { role: "status" }), progress = html("p", { class: "rbp-sentence-progress", "aria-hidden": "true" });
    const problem = html("p", { role: "alert", class: "rbp-explorer-problem" });
    const limit = html("p", { id: id("limit") }), loads = html("p", { id: id("loads") });
    const boxes = cards.map((card) => {
      const box = html("input", { type: "checkbox", id: id(card.label), checked: card.on });
      box.addEventListener("change", () => { card.on = box.checked; arrange(); run(); });
      return html("label", { class: "rbp-explorer-check" }, box, `${card.label} (${megabytes([card])})`);
    });
    text.addEventListener("input", () => { change(text.value); keep(); });
    examples.addEventListener("change", () => { if (examples.value) { text.value = data.examples[examples.value]; change(text.value); keep(); } });
    temperature.addEventListener("input", () => { state.temperature = 2 ** Number(temperature.value); heat(); run(); keep(); });
    const heat = () => {
      temperatureReading.textContent = `Temperature T = ${state.temperature.toFixed(2)}`;
      temperature.setAttribute("aria-valuetext", `T = ${state.temperature.toFixed(2)}`);
    };

    function change(given) {
      state.text = given;
      const grown = state.at >= ids.length, signs = [...given], read = signs.slice(0, data.characters).join(""), all = tokenizer.encode(read);
      ids = all.slice(0, data.limit);
      texts = tokenizer.shown(ids);
      const over = [[signs.length - data.characters, "characters"], [all.length - ids.length, "tokens"]].filter(([many]) => many > 0);
      limit.textContent = `At most ${counted(data.characters)} characters, and of these the first ${counted(data.limit)} tokens. Here: ${counted(signs.length)} characters, ${counted(all.length)} tokens.`
        + over.map(([many, what]) => ` The last ${counted(many)} ${what} are left out.`).join("");
      if (grown || state.at > ids.length) state.at = ids.length; // who writes sees what comes next
      run();
    }

    // ── The page's address, which can be shared

    let writing = 0;
    function keep() {
      clearTimeout(writing); // browsers stop an address that changes too often
      writing = setTimeout(() => {
        const parts = new URLSearchParams({ text: state.text });
        if (state.temperature !== 1) parts.set("T", state.temperature.toFixed(2));
        try { history.replaceState(null, "", `${PREFIX}${parts}`); } catch { /* a page in a sandbox keeps its address */ }
      }, 300);
    }
    function restore() {
      if (!location.hash.startsWith(PREFIX)) return;
      const parts = new URLSearchParams(location.hash.slice(PREFIX.length)), given = Number(parts.get("T"));
      const exponent = given > 0 ? Math.log2(given) : 0;
      temperature.value = exponent; // the control holds it within its range
      state.temperature = 2 ** Number(temperature.value);
      text.value = state.text = parts.get("text") ?? data.text;
    }

    // The page shows what is left to load before anything loads.
    function announce() {
      const missing = chosen().filter(({ model }) => !model);
      loads.textContent = missing.length ? `Not loaded yet: ${missing.map(({ label }) => label).join(", ")}, ${megabytes(missing)}. A text of yours, or a temperature, loads them.`
        : "The models that are ticked are loaded.";
    }

    // ── A card for each model: the text by its ranks, and the top ten at the chosen token

    const grid = html("div", { class: "rbp-sentence-cards" }), summary = html("div", { class: "rbp-scroll", tabindex: 0, role: "region", "aria-label": "The text by each model" });
    for (const card of cards) {
      card.line = html("div", { class: "rbp-sentence-text", role: "group", "aria-label": `The text as ${card.label} ranks it: the arrow keys go from token to token` });
      card.top = html("div", { class: "rbp-sentence-top" });
      card.element = html("section", { class: "rbp-sentence-card", "data-model": card.name, "aria-label": card.label },
        html("h3", {}, card.label, html("small", {}, ` S = ${counted(card.size)}`)), card.line, card.top);
      card.line.addEventListener("click", (event) => {
        const button = event.target.closest("button");
        if (button) choose(card.buttons.indexOf(button));
      });
      card.line.addEventListener("keydown", (event) => {
        const shown = chosen(), row = shown.indexOf(card), last = card.ids.length;
        const to = { ArrowLeft: state.at - 1, ArrowRight: state.at + 1, Home: 1, End: last }[event.key];
        const other = { ArrowUp: shown[row - 1], ArrowDown: shown[row + 1] }[event.key];
        if (to === undefined && !other) return;
        event.preventDefault();
        if (to !== undefined) choose(Math.min(Math.max(to, 1), last));
        (other ?? card).buttons[state.at]?.focus();
      });
    }
    const arrange = () => grid.replaceChildren(...chosen().map(({ element }) => element));

    const strength = (rank) => data.classes.find(([highest]) => highest === null || rank <= highest)[2];
    const shade = (rank) => (rank === null ? "transparent" : `rgba(${data.colour}, ${strength(rank)})`);

    function draw(card) {
      const count = card.ids.length;
      while (card.buttons.length < count + 1) {
        card.buttons.push(html("button", { type: "button", tabindex: -1 }, html("span"), html("small")));
      }
      card.buttons.length = count + 1;
      for (let i = 0; i <= count; i += 1) {
        const button = card.buttons[i], spot = card.places[i] ?? null, rank = spot?.rank ?? null;
        const shown = i === count ? "…" : visible(card.texts[i]);
        const description = i === count ? "what comes next" : rank === null ? `${quoted(card.texts[i])}, the first token: not ranked`
          : `${quoted(card.texts[i])}, rank ${counted(rank)}, −ln p ${nllOf(spot).toFixed(2)}`;
        if (button.description === description && button.firstChild.textContent === shown) continue;
        button.description = description;
        button.firstChild.textContent = shown;
        button.lastChild.textContent = rank ?? (i === count ? "next" : "–");
        button.style.background = shade(rank);
        button.title = description;
        button.setAttribute("aria-label", description);
        button.disabled = spot === null;
      }
      const parts = card.buttons.flatMap((button, i) => (i < count && card.texts[i].includes("\n") ? [button, html("br")] : [button]));
      if (parts.length !== card.line.childNodes.length || parts.some((part, i) => part.tagName !== card.line.childNodes[i].tagName)) {
        const focused = card.buttons.indexOf(document.activeElement);
        card.line.replaceChildren(...parts);
        if (focused >= 0) card.buttons[Math.min(state.at, count)].focus();
      }
      mark(card);
    }

    function mark(card) {
      const at = Math.min(state.at, card.ids.length);
      card.buttons.forEach((button, i) => {
        button.setAttribute("aria-pressed", i === at);
        button.tabIndex = i === at ? 0 : -1;
      });
      const spot = card.places[at];
      if (!spot) { card.top.replaceChildren(); return; }
      const truth = spot.rank === null ? null : spot.truth, best = topOf(spot);
      const [word] = truth === null ? [""] : tokenizer.shown([truth]);
      const lines = best.map(([token, p], i) => [i + 1, tokenizer.shown([token])[0], p, token === truth]);
      if (truth !== null && !best.some(([token]) => token === truth)) lines.push([spot.rank, word, Math.exp(-nllOf(spot)), true]);
      card.top.replaceChildren(html("table", { class: "rbp-table" },
        html("caption", {}, truth === null ? "What comes next" : `${quoted(word)} has rank ${counted(spot.rank)}`),
        html("tbody", {}, ...lines.map(([row, shown, p, right]) => html("tr", { class: right ? "rbp-sentence-truth" : null, style: `--p: ${percent(p, 2)}` },
          html("td", { class: "num" }, counted(row)), html("td", { class: "txt" }, html("code", {}, visible(shown)), right ? " ◂ the text" : null), html("td", { class: "num" }, percent(p, p < 0.0995 ? 1 : 0)))))));
    }

    function choose(at) {
      state.at = at;
      chosen().filter((card) => card.ids).forEach(mark);
    }

    // ── All of the text

    const ranksOf = (card) => card.places.filter((spot) => spot !== null && spot.rank !== null);
    const share = (ranked, limit) => ranked.filter(({ rank }) => rank <= limit).length / ranked.length;
    function showSummary(shown) {
      const ready = shown.filter((card) => ranksOf(card).length);
      const value = (number, text) => html("data", { value: number }, text);
      const heads = ["Model", ...KS.map(below), `cross-entropy at T = ${state.temperature.toFixed(2)}`];
      summary.replaceChildren(html("table", { class: "rbp-table" },
        html("thead", {}, html("tr", {}, ...heads.map((head, i) => html("th", { scope: "col", class: i ? "num" : "txt" }, head)))),
        html("tbody", {}, ...ready.map((card) => {
          const ranked = ranksOf(card), mean = ranked.reduce((sum, spot) => sum + nllOf(spot), 0) / ranked.length;
          return html("tr", { "data-model": card.name }, html("td", { class: "txt" }, card.label),
            ...KS.map((limit) => html("td", { class: "num" }, value(share(ranked, limit), percent(share(ranked, limit))))),
            html("td", { class: "num" }, value(mean, `${mean.toFixed(3)} nats`)));
        }))));
      summary.hidden = !ready.length;
    }

    // ── The page

    const key = html("p", { class: "rbp-sentence-key" }, "The small number is the token's rank: ",
      ...data.classes.flatMap(([highest, name]) => [html("span", { style: `background: ${shade(highest ?? Infinity)}` }, `\u00a0${name}\u00a0`), " "]));
    root.append(
      html("div", { class: "rbp-explorer-field" }, html("label", { for: text.id }, "Your text"), text, limit),
      html("div", { class: "rbp-explorer-row" }, html("div", { class: "rbp-explorer-field" }, html("label", { for: examples.id }, "or an example"), examples),
        html("label", { class: "rbp-explorer-slider" }, temperatureReading, temperature)),
      html("fieldset", {}, html("legend", {}, "Models, and the size of their weights"), html("div", { class: "rbp-explorer-row" }, ...boxes), loads),
      progress, status, problem, summary, key, grid);
    restore();
    arrange();
    heat();
    const at = state.at;
    change(state.text);
    choose(at);
    addEventListener("hashchange", () => { restore(); heat(); change(state.text); });
  }

  const begin = () => document.querySelectorAll(".rbp-sentence").forEach(start);
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", begin);
  else begin();
  return { take };
})();
