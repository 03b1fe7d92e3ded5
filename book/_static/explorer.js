// The fit explorer: the points of the page, the fits of fits.js, the chart of charts.js, tables and commands of what is
// chosen. Names come from data, a reader's own too: they are put into the page as text only.
"use strict";

(() => {
  const { html, number, percent, short, distinct, measured, swatch, styleOf, rowsOf, controls, within, table, Chart } = charts;
  const WORDS = { neg_log_rbp: "−ln RBP", cross_entropy: "cross-entropy" };
  const LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99, 0.999];
  const SIZES = [3, 15]; // forecasts: powers of ten

  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`); // for a shell

  // ── A table of one's own: the rules of `rbp fit`, with the line

  class Wrong extends Error {}
  const COLUMNS = ["dataset", "model", "family", "size", "metric", "k", "value"], CHECKPOINT = ["revision", "training_tokens", "step", "seed"];
  const OPTIONAL = ["tokens", "hits", "source", ...CHECKPOINT, "compute"];

  // The rows of a CSV text, each with the line on which it begins.
  function cells(text) {
    const header = text.split(/\r?\n/).find((line) => line.trim()) ?? "";
    const separator = [",", ";", "\t"].reduce((best, each) => (header.split(each).length > header.split(best).length ? each : best));
    const rows = [];
    let row = [], cell = "", line = 1, begin = 1, quote = false, closed = false;
    const close = () => { row.push(cell.trim()); cell = ""; closed = false; };
    const end = () => { close(); if (row.length > 1 || row[0]) rows.push({ line: begin, row }); row = []; begin = line + 1; };
    for (let i = 0; i < text.length; i += 1) {
      const sign = text[i];
      if (quote) {
        if (sign === '"' && text[i + 1] === '"') { cell += '"'; i += 1; }
        else if (sign === '"') { quote = false; closed = true; }
        else { cell += sign; if (sign === "\n") line += 1; }
      } else if (sign === '"' && cell === "" && !closed) quote = true;
      else if (sign === separator) close();
      else if (sign === "\n") { end(); line += 1; }
      else if (closed && sign.trim()) throw new Wrong(`line ${begin}: text after a closing quotation mark`);
      else if (sign !== "\r") cell += sign;
    }
    if (quote) throw new Wrong(`line ${begin}: a quotation mark that is not closed`);
    end();
    return rows;
  }

  function parse(text, source, known) {
    const [head, ...body] = cells(text.replace(/^\uFEFF/, ""));
    if (!head) throw new Wrong("there is nothing in it: it needs a line of column names, then the rows");
    const all = [...COLUMNS, ...OPTIONAL];
    const names = head.row.map((name) => (all.includes(name.toLowerCase()) ? name.toLowerCase() : name));
    const unknown = names.find((name) => !all.includes(name)), missing = COLUMNS.find((name) => !names.includes(name));
    if (missing) throw new Wrong(`line ${head.line}: column ${missing} is missing; the columns are ${COLUMNS.join(", ")}`);
    if (unknown !== undefined) throw new Wrong(`line ${head.line}: unknown column “${unknown}”`);
    if (new Set(names).size < names.length) throw new Wrong(`line ${head.line}: a column name stands twice`);
    if (!body.length) throw new Wrong("the table has no rows");
    const models = new Map(known.map((row) => [row.model, row])), there = new Set(known.map(place));
    return apart(body.map(({ line, row }) => {
      const fail = (what) => { throw new Wrong(`line ${line}: ${what}`); };
      if (row.length !== names.length) fail(`${row.length} cells where the header has ${names.length}`);
      const cell = Object.fromEntries(names.map((name, i) => [name, row[i]]));
      const real = (name) => {
        if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(cell[name])) {
          fail(cell[name] ? `${name} is no number: “${cell[name]}”` : `${name} is empty`);
        }
        return Number.isFinite(Number(cell[name])) ? Number(cell[name]) : fail(`${name} is too large`);
      };
      const count = (name) => {
        const value = real(name), least = CHECKPOINT.includes(name) ? 0 : 1;
        return Number.isSafeInteger(value) && value >= least ? value : fail(`${name} must be a whole number of at least ${least}`);
      };
      for (const name of ["dataset", "model", "family", "metric"]) if (!cell[name]) fail(`${name} is empty`);
      if (!Object.hasOwn(WORDS, cell.metric)) fail(`metric must be one of ${Object.keys(WORDS).join(", ")}, not “${cell.metric}”`);
      if ((cell.metric === "neg_log_rbp") !== Boolean(cell.k)) fail("neg_log_rbp needs a threshold k, and cross_entropy has none");
      const found = { source, dataset: cell.dataset, model: cell.model, family: cell.family, metric: cell.metric, size: count("size"),
        k: cell.k ? count("k") : null, value: real("value"), tokens: cell.tokens ? count("tokens") : null };
      if (found.value < 0) fail("value must not be negative");
      for (const name of CHECKPOINT) found[name] = !cell[name] ? null : name === "revision" ? cell[name] : count(name);
      if (found.step !== null && found.training_tokens !== null && (found.training_tokens < found.step || (found.training_tokens && !found.step))) {
        fail("training_tokens do not fit step: a step reads one token at least");
      }
      if (cell.hits) {
        const hits = count("hits");
        if (!found.tokens || found.k === null) fail("hits needs tokens beside it, and belongs to neg_log_rbp only");
        if (hits > found.tokens) fail("more hits than tokens");
        const exact = -Math.log(hits / found.tokens);
        if (Math.abs(found.value - exact) > 1e-9 + 1e-5 * exact) fail("value is not −ln(hits/tokens): correct it, or leave hits out");
      }
      const first = models.get(found.model) ?? found;
      if (first.family !== found.family || first.size !== found.size) {
        fail(`${found.model} is ${first.family} of size ${first.size} in another row: a model has one size and one family`);
      }
      if (there.has(place(found))) fail(`${WORDS[found.metric]} of ${found.model} on ${found.dataset} is there already`);
      there.add(place(found));
      models.set(found.model, first);
      return found;
    }));
  }
  const checkpoint = (row) => CHECKPOINT.map((name) => row[name] ?? null);
  const place = (row) => JSON.stringify([row.dataset, row.model, row.k, ...checkpoint(row)]);

  const amount = (tokens) => {
    const [size, unit] = tokens >= 1e12 ? [1e12, "T"] : tokens >= 1e9 ? [1e9, "B"] : [1e6, "M"];
    return `${Number((tokens / size).toPrecision(4))} ${unit}`;
  };

  // As rbp.evidence.checkpoints.apart: a family for each time in training where a size was measured at several, and a
  // name for each checkpoint of a model.
  function apart(rows) {
    const at = ({ training_tokens: tokens, step }) => tokens ?? step, sizes = new Map(), last = new Map(), models = new Map();
    const add = (map, key, value) => map.set(key, (map.get(key) ?? new Set()).add(value));
    for (const row of rows) {
      add(models, row.model, JSON.stringify(checkpoint(row)));
      if (at(row) === null) continue;
      add(sizes, JSON.stringify([row.family, row.size]), at(row));
      last.set(row.family, Math.max(last.get(row.family) ?? 0, at(row)));
    }
    const several = new Set([...sizes].filter(([, times]) => times.size > 1).map(([key]) => JSON.parse(key)[0]));
    return rows.map((row) => {
      const { family, model, revision, training_tokens: tokens, step, seed } = row;
      const earlier = several.has(family) && at(row) !== null && at(row) < last.get(family);
      const first = revision ?? (step !== null ? `step${step}` : tokens !== null ? amount(tokens).replace(" ", "") : "");
      const name = [first, seed !== null && (seed || !first) ? `seed${seed}` : ""].filter(Boolean).join("-");
      return { ...row, family: earlier ? `${family} at ${tokens !== null ? amount(tokens) : `step ${step}`}` : family,
        model: models.get(model).size > 1 ? `${model}@${name}` : model };
    });
  }

  // ── The explorer

  function start(root) {
    const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    const titles = new Map(Object.entries(data.labels)), title = (name) => titles.get(name) ?? name;
    let rows = rowsOf(data);
    const state = { metric: "neg_log_rbp", k: 10, dataset: "wikipedia", families: ["Pythia"], without: new Set(), weights: false,
      offset: false, level: 0.95, at: 1e12, hide: 0 };
    const datasets = () => distinct(rows.map(({ dataset }) => dataset));
    const families = () => distinct(here().map(({ family }) => family)).sort();
    const here = () => rows.filter(({ dataset }) => dataset === state.dataset);
    const pointsOf = (family, metric) => here()
      .filter((row) => row.family === family && row.metric === metric && (metric === "cross_entropy" || row.k === state.k))
      .sort((a, b) => a.size - b.size || (a.model < b.model ? -1 : 1));
    const style = (family) => styleOf(data, rows, family);

    // What is chosen must be there: names that are not give way, numbers go to the nearest.
    function settle() {
      if (!datasets().includes(state.dataset)) state.dataset = datasets()[0];
      if (!here().some(({ metric }) => metric === state.metric)) state.metric = here()[0].metric;
      const thresholds = ks();
      if (thresholds.length && !thresholds.includes(state.k)) {
        state.k = thresholds.reduce((best, k) => (Math.abs(Math.log(k / state.k)) < Math.abs(Math.log(best / state.k)) ? k : best));
      }
      state.families = state.families.filter((family) => families().includes(family));
      const able = families().filter((family) => pointsOf(family, state.metric).length);
      if (!state.families.some((family) => able.includes(family))) state.families = able.slice(0, 1);
      if (state.metric === "cross_entropy") state.weights = false;
      if (state.offset) state.weights = false;
      state.hide = Math.max(0, Math.min(state.hide, most()));
    }
    const fewest = () => (state.offset ? 4 : 3);
    const ks = () => distinct(here().filter(({ k }) => k !== null).map(({ k }) => k)).sort((a, b) => a - b);
    const chosen = () => families().filter((family) => state.families.includes(family) && pointsOf(family, state.metric).length);
    const kept = (family, metric) => pointsOf(family, metric).filter(({ model }) => !state.without.has(model));
    const most = () => Math.max(0, ...chosen().map((family) => kept(family, state.metric).length - fewest()));
    const hiddenOf = (family) => {
      const left = kept(family, state.metric);
      return new Set(left.slice(Math.max(left.length - state.hide, fewest())).map(({ model }) => model));
    };

    const made = new Map(); // a fit takes a while with an offset: each is made once
    function fitted(points, weighted) {
      const key = JSON.stringify([points.map(({ size, value, tokens }) => [size, value, tokens]), state.level, weighted, state.offset]);
      if (!made.has(key)) {
        const given = points.map(({ size, value, tokens }) => ({ size, value, variance: tokens ? Math.expm1(value) / tokens : NaN }));
        try {
          made.set(key, { fit: state.offset ? fits.offset(given, state.level) : fits.power(given, state.level, weighted) });
        } catch (error) { made.set(key, { why: error.message }); }
      }
      return made.get(key);
    }
    const lawsOf = (metric) => chosen().filter((family) => pointsOf(family, metric).length).map((family) => {
      const hidden = hiddenOf(family), points = pointsOf(family, metric);
      const seen = kept(family, metric).filter(({ model }) => !hidden.has(model));
      return { family, style: style(family), points, hidden, out: state.without, seen, ...fitted(seen, state.weights && metric === "neg_log_rbp") };
    });

    // ── Controls

    const { id, labelled, options, select, slider } = controls("rbp-explorer", () => update());
    const check = (name, text, change) => {
      const control = html("input", { type: "checkbox", id: id(name) });
      control.addEventListener("change", () => { change(control.checked); update(); });
      return [control, html("label", { class: "rbp-explorer-check" }, control, text)];
    };
    const metric = select("metric", (value) => { state.metric = value; });
    const k = select("k", (value) => { state.k = Number(value); });
    const dataset = select("dataset", (value) => { state.dataset = value; });
    const level = select("level", (value) => { state.level = Number(value); });
    const [weights, weightsLabel] = check("weights", "weights: counting noise", (on) => { state.weights = on; if (on) state.offset = false; });
    const [offset, offsetLabel] = check("offset", "offset E", (on) => { state.offset = on; if (on) state.weights = false; });
    const familyBox = html("div", { class: "rbp-explorer-row" });
    const round = (size) => Number(Math.min(Math.max(size, 10 ** SIZES[0]), 10 ** SIZES[1]).toPrecision(4));
    const at = slider("at", { min: SIZES[0], max: SIZES[1], step: 0.01 }, (power) => { state.at = round(10 ** power); });
    const hide = slider("hide", { min: 0, step: 1 }, (count) => { state.hide = count; });
    const toggle = (model) => { if (!state.without.delete(model)) state.without.add(model); update(); };
    const charts = [0, 1].map(() => new Chart((size) => { state.at = round(size); update(); }, toggle));
    const chartBox = html("div", { class: "rbp-explorer-charts" }, ...charts.map(({ figure }) => figure));
    const results = html("div", { class: "rbp-scroll", tabindex: 0, role: "region", "aria-label": "The fits" });
    const falls = html("div", { class: "rbp-scroll rbp-explorer-hidden", tabindex: 0, role: "region", "aria-label": "Where the hidden models fall" });
    const note = html("p", { class: "rbp-explorer-note", role: "status" });
    const command = html("pre", { tabindex: 0, "aria-label": "The command" }), copied = html("span", { role: "status" });
    const copy = html("button", { type: "button", id: id("copy") }, "Copy");
    copy.addEventListener("click", async () => {
      const range = document.createRange();
      range.selectNodeContents(command);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      try { await navigator.clipboard.writeText(command.textContent); } catch { document.execCommand("copy"); }
      copied.textContent = " copied";
      setTimeout(() => { copied.textContent = ""; }, 2000);
    });
    const modelBox = html("div"), everybody = html("button", { type: "button", id: id("everybody") }, "Take all back in");
    everybody.addEventListener("click", () => { state.without.clear(); update(); });

    // A table of one's own
    const text = html("textarea", { id: id("csv"), rows: 5, spellcheck: "false", placeholder: `${COLUMNS.join(",")}\nmy-text,my-10m,Mine,10000000,neg_log_rbp,1,1.23` });
    const file = html("input", { type: "file", id: id("file"), accept: ".csv,text/csv" }), problem = html("p", { role: "alert", class: "rbp-explorer-problem" });
    const use = html("button", { type: "button", id: id("use") }, "Add these points");
    const names = html("p");
    function take(csv, name) {
      problem.textContent = "";
      try {
        if (csv.length > 2e6) throw new Wrong("more than two million characters: use `rbp fit`");
        const source = data.sources.includes(name) ? `./${name}` : name;
        const own = parse(csv, source, rows.filter((row) => row.source !== source));
        rows = [...rows.filter((row) => row.source !== source), ...own];
        const [{ dataset: first, metric: measure, k: threshold }] = own;
        Object.assign(state, { dataset: first, metric: measure, k: threshold ?? state.k, hide: 0,
          families: distinct(own.filter((row) => row.dataset === first).map(({ family }) => family)).slice(0, 4) });
        names.textContent = `${own.length} points of ${name} are in the chart. They stay in this tab: nothing is sent anywhere, and the address does not hold them.`;
        update();
      } catch (error) {
        if (!(error instanceof Wrong)) throw error;
        problem.textContent = `${name}: ${error.message}.`;
      }
    }
    async function read(given) {
      if (!given) return;
      try {
        take(new TextDecoder("utf-8", { fatal: true }).decode(await given.arrayBuffer()), given.name);
      } catch { problem.textContent = `${given.name}: it is not UTF-8 text.`; }
    }
    use.addEventListener("click", () => take(text.value, "pasted.csv"));
    file.addEventListener("change", () => read(file.files[0]));
    root.addEventListener("dragover", (event) => event.preventDefault());
    root.addEventListener("drop", (event) => { event.preventDefault(); own.open = true; read(event.dataTransfer.files[0]); });
    const own = html("details", { id: id("own") }, html("summary", {}, "Points of your own"),
      html("p", {}, `Paste a CSV table, choose a file, or drop one anywhere on the explorer. Its columns: ${COLUMNS.join(", ")}; if you like, ${OPTIONAL.join(", ")}. k stays empty for cross_entropy.`),
      labelled("CSV", text), html("div", { class: "rbp-explorer-row" }, use, labelled("or a file", file)), problem, names);

    root.append(
      html("div", { class: "rbp-explorer-row" }, labelled("Measure", metric), labelled("k", k), labelled("Data set", dataset), labelled("Level", level), weightsLabel, offsetLabel),
      html("fieldset", {}, html("legend", {}, "Families"), familyBox),
      chartBox, at.label, hide.label, note, results, falls,
      html("div", { class: "rbp-explorer-command" }, html("p", {}, "The same by ", html("code", {}, "rbp fit"), " ", copy, copied), command),
      html("details", { id: id("models") }, html("summary", {}, "Models in the fit (or click a point)"), everybody, modelBox), own);

    // ── What is shown

    const measure = (name) => measured(name, state.k);
    const shown = (name, value, digits) => html("data", { value, "data-name": name }, number(value, digits));
    const between = (name, low, high, digits) => [shown(`${name}_low`, low, digits), " to ", shown(`${name}_high`, high, digits)];
    function tell(laws) {
      const interval = `${percent(state.level)} interval`;
      const heads = ["Family", "Models", "α", interval, ...(state.offset ? ["E", `${interval} of E`] : ["R²"]), `at S = ${number(state.at)}`, `${interval} of a new model`];
      results.replaceChildren(table(heads, laws.map(({ family, style: look, seen, fit, why }) => {
        const name = [swatch(look), " ", title(family)];
        if (!fit) return { family, cells: [name, String(seen.length), why] };
        const forecast = fit.predict(state.at);
        const quality = state.offset
          ? [shown("offset", fit.offset), between("offset", fit.offset_low, fit.offset_high)] : [shown("r_squared", fit.r_squared)];
        return { family, cells: [name, `${fit.n}${fit.weak ? " (few)" : ""}`, shown("alpha", fit.alpha), between("alpha", fit.alpha_low, fit.alpha_high), ...quality,
          shown("value", forecast.value), between("forecast", forecast.low, forecast.high)] };
      }), true));
    }

    function compare(measures) {
      const able = measures.flatMap(({ laws }) => laws.filter(({ fit }) => fit).map(({ family }) => family));
      const lines = chosen().filter((family) => able.includes(family)).flatMap((family) => [...hiddenOf(family)].map((model) => ({ family, model })));
      falls.hidden = !lines.length;
      if (!lines.length) return "";
      const heads = ["Hidden model", ...measures.flatMap(({ label }) => [`${label}: measured`, "forecast", `${percent(state.level)} interval`, "inside?"])];
      const counts = measures.map(() => [0, 0]);
      falls.replaceChildren(table(heads, lines.map(({ family, model }) => ({ family, cells: [short(model), ...measures.flatMap(({ laws }, i) => {
        const law = laws.find((each) => each.family === family), point = law?.points.find((each) => each.model === model);
        if (!point || !law.fit) return ["–", "–", "–", "–"];
        const forecast = law.fit.predict(point.size), { value, low, high } = forecast, inside = within(forecast, point.value);
        counts[i][0] += inside; counts[i][1] += 1;
        return [number(point.value), number(value), `${number(low)} to ${number(high)}`, inside ? "yes" : point.value > high ? "no: worse" : "no: better"];
      })] })), false));
      return counts.map(([inside, all], i) => `${measures[i].label}: ${inside} of ${all} hidden models inside the interval.`).join(" ");
    }

    function commandOf(law) {
      const sources = distinct(law.points.map(({ source }) => source)).join(",");
      const words = ["rbp", "fit", "--measurements", sources, "--dataset", state.dataset, "--family", law.family];
      words.push(...(state.metric === "cross_entropy" ? ["--metric", "cross_entropy"] : ["--k", String(state.k)]));
      if (state.level !== 0.95) words.push("--level", String(state.level));
      if (state.weights) words.push("--weights");
      if (state.offset) words.push("--offset");
      for (const { model } of law.points) if (state.without.has(model) || law.hidden.has(model)) words.push("--without", model);
      return [...words, "--at", String(state.at)].map(quoted).join(" ");
    }

    let boxes = "";
    function listModels() {
      const listed = chosen().map((family) => [family, pointsOf(family, state.metric).map(({ model, size }) => [model, size])]);
      if (JSON.stringify(listed) !== boxes) {
        boxes = JSON.stringify(listed);
        modelBox.replaceChildren(...listed.map(([family, models]) => html("fieldset", {}, html("legend", {}, title(family)), html("div", { class: "rbp-explorer-models" }, ...models.map(([model, size]) => {
          const box = html("input", { type: "checkbox" });
          box.model = model;
          box.addEventListener("change", () => toggle(model));
          return html("label", { class: "rbp-explorer-check", title: model }, box, `${short(model)} (${number(size, 3)})`);
        })))));
      }
      for (const box of modelBox.querySelectorAll("input")) box.checked = !state.without.has(box.model);
    }

    let listed = "";
    function listFamilies() {
      if (JSON.stringify(families()) !== listed) {
        listed = JSON.stringify(families());
        familyBox.replaceChildren(...families().map((family) => {
          const box = html("input", { type: "checkbox" });
          box.family = family;
          box.addEventListener("change", () => {
            state.families = box.checked ? [...state.families, family] : state.families.filter((each) => each !== family);
            update();
          });
          return html("label", { class: "rbp-explorer-check" }, box, swatch(style(family)), title(family));
        }));
      }
      for (const box of familyBox.querySelectorAll("input")) {
        box.checked = state.families.includes(box.family);
        box.disabled = !pointsOf(box.family, state.metric).length;
      }
    }

    function show() {
      settle();
      const measures = here().map((row) => row.metric);
      options(metric, Object.entries(WORDS).filter(([name]) => measures.includes(name)), state.metric);
      options(k, ks().map((each) => [each, each]), state.k);
      k.disabled = !ks().length;
      options(dataset, datasets().map((name) => [name, title(name)]), state.dataset);
      options(level, distinct([...LEVELS, state.level]).sort().map((each) => [each, percent(each)]), state.level);
      weights.checked = state.weights;
      weights.disabled = state.metric === "cross_entropy";
      offset.checked = state.offset;
      listFamilies();
      at.control.value = Math.log10(state.at);
      at.control.setAttribute("aria-valuetext", `${number(state.at)} parameters`);
      at.said.textContent = `Forecast at S = ${number(state.at)}`;
      hide.control.max = most();
      hide.control.value = state.hide;
      const laws = lawsOf(state.metric), seen = laws.map(({ family, seen: left, points }) => `${left.length} of ${points.length} ${title(family)}`);
      hide.said.textContent = `Hide the largest ${state.hide}: the fit sees ${seen.join(", ")} models`;
      hide.control.setAttribute("aria-valuetext", hide.said.textContent);
      const other = state.metric === "cross_entropy" ? "neg_log_rbp" : "cross_entropy", beside = state.hide ? lawsOf(other) : [];
      const sides = [{ label: measure(state.metric), laws }, ...(beside.length ? [{ label: measure(other), laws: beside }] : [])];
      charts[1].figure.hidden = !beside.length;
      chartBox.classList.toggle("rbp-explorer-two", beside.length > 0);
      sides.forEach(({ label, laws: drawn }, i) => {
        const slopes = drawn.filter(({ fit }) => fit).map(({ family, fit }) => `${title(family)}: α = ${number(fit.alpha)}`).join("; ");
        const where = title(state.dataset);
        const describe = `Log-log chart of ${label} against model size on ${where}. ${slopes}`;
        charts[i].draw(drawn, { title: `${label} on ${where}`, label, describe, size: state.at });
      });
      tell(laws);
      const unmeasured = state.hide && !beside.length ? ` For these families ${measure(other)} is not measured here.` : "";
      note.textContent = `${compare(sides)}${unmeasured}`;
      command.textContent = laws.map(commandOf).join("\n");
      listModels();
    }

    // ── The state in the address

    const PREFIX = "#fit?";
    function written() {
      const { metric: what, k: threshold, dataset: name, level: confidence, at: size, hide: count } = state;
      const parts = new URLSearchParams({ dataset: name, ...(what === "cross_entropy" ? { metric: what } : {}), k: threshold, level: confidence, at: size, hide: count });
      for (const flag of ["weights", "offset"]) if (state[flag]) parts.set(flag, "1");
      state.families.forEach((family) => parts.append("family", family));
      state.without.forEach((model) => parts.append("without", model));
      return `${PREFIX}${parts}`;
    }
    function restore() {
      if (!location.hash.startsWith(PREFIX)) return;
      const parts = new URLSearchParams(location.hash.slice(PREFIX.length));
      const given = (name, may) => { const value = Number(parts.get(name)); return parts.has(name) && may(value) ? value : state[name]; };
      state.metric = parts.get("metric") === "cross_entropy" ? "cross_entropy" : "neg_log_rbp";
      state.dataset = parts.get("dataset") ?? state.dataset;
      state.k = given("k", (value) => value >= 1);
      state.level = given("level", (value) => value > 0 && value < 1);
      state.at = round(given("at", (value) => value > 0));
      state.hide = given("hide", Number.isInteger);
      state.weights = parts.has("weights");
      state.offset = parts.has("offset");
      state.families = parts.getAll("family");
      state.without = new Set(parts.getAll("without"));
    }
    let waiting = false, writing = 0;
    function update() {
      if (!waiting) requestAnimationFrame(() => { waiting = false; show(); });
      waiting = true;
      clearTimeout(writing); // browsers stop an address that changes too often
      writing = setTimeout(() => {
        try { history.replaceState(null, "", written()); } catch { /* a page in a sandbox keeps its address */ }
      }, 200);
    }
    restore();
    show();
    addEventListener("hashchange", () => { restore(); show(); });
    let width = chartBox.clientWidth;
    new ResizeObserver(() => { if (chartBox.clientWidth !== width) { width = chartBox.clientWidth; show(); } }).observe(chartBox);
  }

  const begin = () => document.querySelectorAll(".rbp-explorer").forEach(start);
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", begin);
  else begin();
})();
