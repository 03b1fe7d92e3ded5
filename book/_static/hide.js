// Hide the largest: a law is fitted to the smallest models of a family; do the others fall where it says?
"use strict";

(() => {
  const { html, number, percent, short, distinct, measured, styleOf, rowsOf, controls, within, table, Chart } = charts;
  const FEWEST = 3, METRICS = ["neg_log_rbp", "cross_entropy"], PREFIX = "#hide?";

  function start(root) {
    const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    const rows = rowsOf(data), titles = new Map(Object.entries(data.labels));
    const { labelled, options, select, slider } = controls("rbp-hide", () => update());
    const state = { ...data.start };
    const here = ({ dataset, family, metric = METRICS[0], k }) => rows
      .filter((row) => row.dataset === dataset && row.family === family && row.metric === metric && (metric !== METRICS[0] || row.k === k))
      .sort((a, b) => a.size - b.size || (a.model < b.model ? -1 : 1));
    // Where a larger model can be hidden: four sizes or more.
    const cells = distinct(rows.map(({ dataset, family, k }) => JSON.stringify({ dataset, family, k }))).map((cell) => JSON.parse(cell))
      .filter((cell) => cell.k !== null && distinct(here(cell).map(({ size }) => size)).length > FEWEST);

    // Models of one size are hidden together.
    function ends() {
      const points = here(state);
      return points.flatMap(({ size }, i) => (i + 1 < points.length && points[i + 1].size > size && distinct(points.slice(0, i + 1).map((each) => each.size)).length >= FEWEST ? [i + 1] : []));
    }
    // What is chosen must be there: else it gives way to what is.
    function settle() {
      for (const name of ["dataset", "family", "k"]) {
        const fixed = { dataset: [], family: ["dataset"], k: ["dataset", "family"] }[name];
        const able = distinct(cells.filter((cell) => fixed.every((each) => cell[each] === state[each])).map((cell) => cell[name]));
        if (name === "k") able.sort((a, b) => a - b);
        if (!able.includes(state[name])) [state[name]] = able;
        options({ dataset, family, k }[name], able.map((each) => [each, name === "dataset" ? titles.get(each) ?? each : each]), state[name]);
      }
      state.seen = ends().reduce((best, end) => (Math.abs(end - state.seen) < Math.abs(best - state.seen) ? end : best));
    }

    function lawOf(metric) {
      const points = here({ ...state, metric }), { size: largest } = here(state)[state.seen - 1];
      const seen = points.filter(({ size }) => size <= largest), unseen = points.filter(({ size }) => size > largest);
      const law = { family: state.family, style: styleOf(data, rows, state.family), points, out: new Set(), hidden: new Set(unseen.map(({ model }) => model)), unseen };
      try { return { ...law, fit: fits.power(seen, data.level) }; } catch (error) { return { ...law, fit: null, why: error.message }; }
    }

    const dataset = select("dataset", (value) => { state.dataset = value; }), family = select("family", (value) => { state.family = value; });
    const k = select("k", (value) => { state.k = Number(value); });
    const seen = slider("seen", { min: FEWEST, step: 1 }, (count) => { state.seen = count; });
    const pictures = METRICS.map(() => new Chart());
    const box = html("div", { class: "rbp-explorer-charts" }, ...pictures.map(({ figure }) => figure));
    const told = html("p", { role: "status" }), falls = html("div");
    root.append(html("div", { class: "rbp-explorer-row" }, labelled("Data set", dataset), labelled("Family", family), labelled("k", k)),
      seen.label, box, told, html("details", {}, html("summary", {}, "The hidden models, one by one"), falls));

    function show() {
      settle();
      const places = ends(), all = here(state).length, laws = METRICS.map(lawOf);
      seen.control.max = places.at(-1);
      seen.control.value = state.seen;
      seen.said.textContent = `The fit sees the ${state.seen} smallest of ${all} models`;
      seen.control.setAttribute("aria-valuetext", seen.said.textContent);
      const sides = METRICS.map((metric, i) => ({ ...laws[i], label: measured(metric, state.k) }));
      box.classList.toggle("rbp-explorer-two", sides[1].points.length > 0);
      sides.forEach(({ label, points, fit }, i) => {
        pictures[i].figure.hidden = !points.length;
        if (points.length) pictures[i].draw([laws[i]], label, label, null, `${label} of ${state.family} against model size, with the law of the smallest models${fit ? `: α = ${number(fit.alpha)}` : ""}`);
      });
      told.textContent = sides.map(({ label, points, unseen, fit, why }) => {
        if (!points.length) return `The cross-entropy of these models on this text is not among the measurements.`;
        if (!fit) return `${label}: no law, ${why}.`;
        const inside = unseen.filter((point) => within(fit.predict(point.size), point.value)).length;
        const hopeful = unseen.filter((point) => fit.predict(point.size).value < point.value).length;
        return `${label}: ${inside} of ${unseen.length} hidden inside; the law promised too much for ${hopeful}.`;
      }).join(" ");
      const exact = (name, value) => html("data", { value, "data-name": name }, number(value));
      const heads = ["Model", "Measure", "Measured", "Forecast", `${percent(data.level)} interval`, "Inside?"];
      falls.replaceChildren(table(heads, sides.flatMap(({ label, unseen, fit }) => (fit ? unseen : []).map((point) => {
        const forecast = fit.predict(point.size), { value, low, high } = forecast;
        const verdict = within(forecast, point.value) ? "yes" : point.value > high ? "no: worse" : "no: better";
        return { family: point.metric, cells: [short(point.model), label, number(point.value), exact("value", value), [exact("low", low), " to ", exact("high", high)], verdict] };
      })), true));
    }

    function restore() {
      if (!location.hash.startsWith(PREFIX)) return;
      const parts = new URLSearchParams(location.hash.slice(PREFIX.length));
      for (const name of ["dataset", "family"]) state[name] = parts.get(name) ?? state[name];
      for (const name of ["k", "seen"]) if (Number(parts.get(name)) > 0) state[name] = Number(parts.get(name));
    }
    let writing = 0;
    function update() {
      show();
      clearTimeout(writing); // browsers stop an address that changes too often
      writing = setTimeout(() => {
        try { history.replaceState(null, "", `${PREFIX}${new URLSearchParams(state)}`); } catch { /* a page in a sandbox keeps its address */ }
      }, 200);
    }
    restore();
    show();
    addEventListener("hashchange", () => { restore(); show(); });
    let width = box.clientWidth;
    new ResizeObserver(() => { if (box.clientWidth !== width) { width = box.clientWidth; show(); } }).observe(box);
  }

  const begin = () => document.querySelectorAll(".rbp-hide").forEach(start);
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", begin);
  else begin();
})();
