// The front page's chart that hides a family's largest models: a picture that the page brings, and in its place a chart
// that moves, by charts.js and fits.js. Without this script the picture stays.
"use strict";

(() => {
  const { html, svg, number, short, swatch, measured, controls, Chart } = charts;
  const LEFT = 3; // models that a line sees at least

  // One of several, as buttons that are the chart's legend too: [[value, text, style or null]].
  function chips(name, title, entries, value, change) {
    const boxes = entries.map(([key, text, style]) => {
      const box = html("input", { type: "radio", name: `rbp-${name}`, value: key, checked: key === value });
      box.addEventListener("change", () => change(key));
      return html("label", { class: "rbp-chip" }, box, style && swatch(style), text);
    });
    return html("fieldset", { class: "rbp-chips" }, html("legend", { class: "rbp-unseen" }, title), ...boxes);
  }

  function start(root) {
    const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    const all = data.points.map(([family, model, size, k, value]) => ({ family, model, size, k, value }));
    const state = { family: data.family, k: data.k, hidden: data.hidden }, chart = new Chart();
    const ofFamily = () => all.filter(({ family, k }) => family === state.family && k === state.k).sort((a, b) => a.size - b.size);
    const { slider } = controls("rbp-hide", () => show());
    const family = chips("hide-family", "Family", Object.entries(data.styles).map(([name, style]) => [name, name, style]), state.family, (name) => { state.family = name; show(); });
    const k = chips("hide-k", "Threshold", data.ks.map((each) => [each, `k = ${each}`]), state.k, (each) => { state.k = each; show(); });
    const count = slider("count", { min: 1, step: 1 }, (value) => { state.hidden = value; });
    const note = html("p", { class: "rbp-living-forecast" });
    const plainly = (error) => `${Math.abs(error).toFixed(1)}% too ${error < 0 ? "optimistic" : "pessimistic"}`;
    const marked = (name, value, text) => html("data", { value, "data-name": name }, text);

    function show() {
      const points = ofFamily(), most = points.length - LEFT, style = data.styles[state.family], label = measured("neg_log_rbp", state.k);
      state.hidden = Math.min(Math.max(state.hidden, 1), most);
      const fit = fits.power(points.slice(0, points.length - state.hidden));
      const missed = points.slice(points.length - state.hidden).map((each) => {
        const forecast = fit.predict(each.size).value;
        return { ...each, forecast, error: 100 * (forecast / each.value - 1) };
      });
      const last = missed.at(-1), optimistic = missed.filter(({ error }) => error < 0).length;
      count.control.max = most;
      count.control.value = state.hidden;
      count.reading.textContent = state.hidden === 1 ? "Hide the largest model" : `Hide the ${state.hidden} largest models`;
      count.control.setAttribute("aria-valuetext", `${count.reading.textContent}: ${short(last.model)} ${plainly(last.error)}`);
      chart.draw([{ style, points, fit, out: new Set(), hidden: new Set(missed.map(({ model }) => model)) }], { label, across: "model size S (parameters)",
        describe: `${label} of ${points.length} ${state.family} models against their size; the line is fitted without the ${missed.length} largest, and its forecast of the largest is ${plainly(last.error)}` });
      chart.picture.querySelector(".rbp-explorer-law").after(...missed.map(({ size, value, forecast }) => svg("path", { class: "rbp-living-miss", d: `M${chart.x(size)} ${chart.y(value)}V${chart.y(forecast)}` })));
      note.replaceChildren(
        html("span", {}, `${short(last.model)}: forecast ${number(last.forecast, 3)}, measured ${number(last.value, 3)}`),
        html("b", {}, marked("error", last.error, plainly(last.error))),
        html("span", {}, `${optimistic} of ${missed.length} too optimistic; α = `, marked("alpha", fit.alpha, fit.alpha.toFixed(3))));
    }

    chart.title.textContent = "The line is fitted without the hidden models.";
    root.replaceChildren(chart.figure, note, html("div", { class: "rbp-living-tools" }, family, k, count.label));
    show();
    let width = root.clientWidth;
    new ResizeObserver(() => { if (root.clientWidth !== width) { width = root.clientWidth; show(); } }).observe(root);
  }

  const begin = () => document.querySelectorAll(".rbp-living").forEach(start);
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", begin);
  else begin();
})();
