// The fit explorer: the points of the page, the fits of fits.js, the chart of charts.js, tables and commands of what is
// chosen. Names come from data, which may be a reader's own: they are put into the page as text only.
"use strict";

(() => {
  const { html, number, percent, short, distinct, measured, swatch, rowsOf, controls, within, table, Chart } = charts;
  const WORDS = { neg_log_rbp: "−ln RBP", cross_entropy: "cross-entropy" };
  const SIZES = [3, 15]; // forecasts: powers of ten
  const FEWEST = 3; // models in a fit

  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`); // for a shell

  // ── The explorer

  function start(root) {
    const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    const titles = new Map(Object.entries(data.labels)), title = (name) => titles.get(name) ?? name;
    const rows = rowsOf(data), levels = Object.keys(data.quantiles).map(Number).sort((a, b) => a - b);
    const state = { metric: "neg_log_rbp", k: 10, dataset: "wikipedia", families: ["Pythia"], without: new Set(), level: 0.95, at: 1e12, hide: 0 };
    const datasets = () => distinct(rows.map(({ dataset }) => dataset));
    const families = () => distinct(here().map(({ family }) => family)).sort();
    const here = () => rows.filter(({ dataset }) => dataset === state.dataset);
    const pointsOf = (family, metric) => here()
      .filter((row) => row.family === family && row.metric === metric && (metric === "cross_entropy" || row.k === state.k))
      .sort((a, b) => a.size - b.size || (a.model < b.model ? -1 : 1));

    // The choice must exist: missing names are replaced, numbers go to the nearest.
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
      state.hide = Math.max(0, Math.min(state.hide, most()));
    }
    const ks = () => distinct(here().filter(({ k }) => k !== null).map(({ k }) => k)).sort((a, b) => a - b);
    const chosen = () => families().filter((family) => state.families.includes(family) && pointsOf(family, state.metric).length);
    const included = (family, metric) => pointsOf(family, metric).filter(({ model }) => !state.without.has(model));
    const most = () => Math.max(0, ...chosen().map((family) => included(family, state.metric).length - FEWEST));
    const hiddenOf = (family) => {
      const left = included(family, state.metric);
      return new Set(left.slice(Math.max(left.length - state.hide, FEWEST)).map(({ model }) => model));
    };

    function fitted(points) {
      try { return { fit: fits.power(points, data.quantiles[state.level]) }; } catch (error) { return { why: error.message }; }
    }
    const lawsOf = (metric) => chosen().filter((family) => pointsOf(family, metric).length).map((family) => {
      const hidden = hiddenOf(family), points = pointsOf(family, metric);
      const seen = included(family, metric).filter(({ model }) => !hidden.has(model));
      return { family, style: data.styles[family], points, hidden, out: state.without, seen, ...fitted(seen) };
    });

    // ── Controls

    const { id, labelled, options, select, slider } = controls("rbp-explorer", () => update());
    const metric = select("metric", (value) => { state.metric = value; });
    const k = select("k", (value) => { state.k = Number(value); });
    const dataset = select("dataset", (value) => { state.dataset = value; });
    const level = select("level", (value) => { state.level = Number(value); });
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

    root.append(
      html("div", { class: "rbp-explorer-row" }, labelled("Measure", metric), labelled("k", k), labelled("Dataset", dataset), labelled("Level", level)),
      html("fieldset", {}, html("legend", {}, "Families"), familyBox),
      chartBox, at.label, hide.label, note, results, falls,
      html("div", { class: "rbp-explorer-command" }, html("p", {}, "The same by ", html("code", {}, "rbp fit"), " ", copy, copied), command),
      html("details", { id: id("models") }, html("summary", {}, "Models in the fit (or click a point)"), everybody, modelBox));

    // ── What is shown

    const measure = (name) => measured(name, state.k);
    const shown = (name, value, digits) => html("data", { value, "data-name": name }, number(value, digits));
    const between = (name, low, high, digits) => [shown(`${name}_low`, low, digits), " to ", shown(`${name}_high`, high, digits)];
    function showResults(laws) {
      const interval = `${percent(state.level)} interval`;
      const heads = ["Family", "Models", "α", interval, "R²", `at S = ${number(state.at)}`, `${interval} of a new model`];
      results.replaceChildren(table(heads, laws.map(({ family, style: look, seen, fit, why }) => {
        const name = [swatch(look), " ", title(family)];
        if (!fit) return { family, cells: [name, String(seen.length), why] };
        const forecast = fit.predict(state.at);
        return { family, cells: [name, `${fit.n}${fit.weak ? " (few)" : ""}`, shown("alpha", fit.alpha), between("alpha", fit.alpha_low, fit.alpha_high), shown("r_squared", fit.r_squared),
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
      const words = ["rbp", "fit", sources, "--dataset", state.dataset, "--family", law.family];
      words.push(...(state.metric === "cross_entropy" ? ["--metric", "cross_entropy"] : ["--k", String(state.k)]));
      if (state.level !== 0.95) words.push("--level", String(state.level));
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
          return html("label", { class: "rbp-explorer-check" }, box, swatch(data.styles[family]), title(family));
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
      options(level, levels.map((each) => [each, percent(each)]), state.level);
      listFamilies();
      at.control.value = Math.log10(state.at);
      at.control.setAttribute("aria-valuetext", `${number(state.at)} parameters`);
      at.reading.textContent = `Forecast at S = ${number(state.at)}`;
      hide.control.max = most();
      hide.control.value = state.hide;
      const laws = lawsOf(state.metric), seen = laws.map(({ family, seen: left, points }) => `${left.length} of ${points.length} ${title(family)}`);
      hide.reading.textContent = `Hide the largest ${state.hide}: the fit sees ${seen.join(", ")} models`;
      hide.control.setAttribute("aria-valuetext", hide.reading.textContent);
      const other = state.metric === "cross_entropy" ? "neg_log_rbp" : "cross_entropy", beside = state.hide ? lawsOf(other) : [];
      const sides = [{ label: measure(state.metric), laws }, ...(beside.length ? [{ label: measure(other), laws: beside }] : [])];
      charts[1].figure.hidden = !beside.length;
      chartBox.classList.toggle("rbp-explorer-two", beside.length > 0);
      sides.forEach(({ label, laws: sideLaws }, i) => {
        const slopes = sideLaws.filter(({ fit }) => fit).map(({ family, fit }) => `${title(family)}: α = ${number(fit.alpha)}`).join("; ");
        const where = title(state.dataset);
        const describe = `Log-log chart of ${label} against model size on ${where}. ${slopes}`;
        charts[i].draw(sideLaws, { title: `${label} on ${where}`, label, describe, size: state.at });
      });
      showResults(laws);
      const unmeasured = state.hide && !beside.length ? ` For these families ${measure(other)} is not measured here.` : "";
      note.textContent = `${compare(sides)}${unmeasured}`;
      command.textContent = laws.map(commandOf).join("\n");
      listModels();
    }

    // ── The state in the address

    const PREFIX = "#fit?";
    function address() {
      const { metric: what, k: threshold, dataset: name, level: confidence, at: size, hide: count } = state;
      const parts = new URLSearchParams({ dataset: name, ...(what === "cross_entropy" ? { metric: what } : {}), k: threshold, level: confidence, at: size, hide: count });
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
      state.level = given("level", (value) => levels.includes(value));
      state.at = round(given("at", (value) => value > 0));
      state.hide = given("hide", Number.isInteger);
      state.families = parts.getAll("family");
      state.without = new Set(parts.getAll("without"));
    }
    let waiting = false, writing = 0;
    function update() {
      if (!waiting) requestAnimationFrame(() => { waiting = false; show(); });
      waiting = true;
      clearTimeout(writing); // browsers stop an address that changes too often
      writing = setTimeout(() => {
        try { history.replaceState(null, "", address()); } catch { /* a page in a sandbox keeps its address */ }
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
