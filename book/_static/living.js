// The front page's charts: a picture that the page brings, and in its place a chart that moves, by charts.js and fits.js.
// Without this script the pictures stay.
"use strict";

(() => {
  const { html, svg, number, short, swatch, controls, Chart } = charts;
  const NOBODY = new Set(), PARAMETERS = "model size S (parameters)";
  const power = (height, centre, alpha) => ({ alpha, predict: (size) => ({ size, value: height * (size / centre) ** -alpha }) });
  const said = (name, value, digits) => html("data", { value, "data-name": name }, number(value, digits));
  const fixed = (name, value, places) => html("data", { value, "data-name": name }, value.toFixed(places).replace("-", "−"));
  const law = (points, style, fit, more = {}) => ({ style, points, fit, out: NOBODY, hidden: NOBODY, ...more });
  const rows = (points) => points.map(([family, model, size, k, value]) => ({ family, model, size, k, value }));
  const average = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;

  // One of several, as buttons that are the chart's legend too: [[value, text, style or null]].
  function chips(name, title, entries, value, change) {
    const boxes = entries.map(([key, text, style]) => {
      const box = html("input", { type: "radio", name: `rbp-${name}`, value: key, checked: key === value });
      box.addEventListener("change", () => change(key));
      return html("label", { class: "rbp-chip" }, box, style && swatch(style), text);
    });
    return html("fieldset", { class: "rbp-chips" }, html("legend", { class: "rbp-unseen" }, title), ...boxes);
  }

  // What each chart has: what to do with it, its picture, the numbers, its controls; show() draws it anew.
  function frame(root, hint, chart, tools, told, show) {
    chart.title.textContent = hint;
    const note = html("p", { class: "rbp-living-told" });
    for (const old of root.querySelectorAll(":scope > :not(script)")) old.remove();
    root.append(chart.figure, note, html("div", { class: "rbp-living-tools" }, ...tools));
    const draw = () => { show(); note.replaceChildren(...told()); };
    draw();
    let width = root.clientWidth;
    new ResizeObserver(() => { if (root.clientWidth !== width) { width = root.clientWidth; draw(); } }).observe(root);
    return draw;
  }

  // ── The line of a family, which can be moved

  function line(root, data) {
    const all = rows(data.points), state = { family: data.family };
    const own = () => all.filter(({ family }) => family === state.family);
    const centre = () => Math.exp(average(own().map(({ size }) => Math.log(size))));
    const fitted = () => fits.power(own());
    const quality = () => {
      const y = own().map(({ value }) => Math.log(value)), mean = average(y);
      const off = own().map(({ size, value }) => Math.log(value / mine().predict(size).value));
      return 1 - off.reduce((sum, each) => sum + each * each, 0) / y.reduce((sum, each) => sum + (each - mean) ** 2, 0);
    };
    const mine = () => power(state.height, centre(), state.alpha);
    const best = () => { const fit = fitted(); state.alpha = fit.alpha; state.height = fit.predict(centre()).value; };
    best();
    const ALPHA = [-0.05, 0.25], reach = () => own().map(({ value }) => value);
    const limited = (value, [low, high]) => Math.min(Math.max(value, low), high);
    const heights = () => [Math.min(...reach()) / 1.15, Math.max(...reach()) * 1.15];

    const chart = new Chart(), update = () => draw();
    const { slider } = controls("rbp-line", update);
    const family = chips("line-family", "Family", Object.entries(data.styles).map(([name, style]) => [name, name, style]), state.family,
      (name) => { state.family = name; best(); update(); });
    const slope = slider("slope", { min: ALPHA[0], max: ALPHA[1], step: 0.001 }, (value) => { state.alpha = value; });
    const height = slider("height", { min: 0, max: 1, step: 0.005 }, (place) => { const [low, high] = heights(); state.height = low * (high / low) ** place; });
    const back = html("button", { type: "button" }, "Best line");
    back.addEventListener("click", () => { best(); update(); });

    // Dragged at an end it turns about the other; in the middle it moves as it is.
    let held = null;
    const ends = () => [Math.min(...own().map(({ size }) => size)), Math.max(...own().map(({ size }) => size))];
    chart.picture.addEventListener("pointerdown", (event) => {
      const part = event.target.closest("[data-part]")?.dataset.part;
      if (!part) return;
      held = { part, from: chart.y.back(chart.at(event)[1]), height: state.height };
      chart.picture.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    // a finger on a grip drags it, and does not scroll the page
    chart.picture.addEventListener("touchstart", (event) => { if (event.target.closest("[data-part]")) event.preventDefault(); }, { passive: false });
    chart.picture.addEventListener("pointermove", (event) => {
      if (!held) return;
      const value = chart.y.back(chart.at(event)[1]), [low, high] = ends();
      if (held.part === "middle") state.height = limited(held.height * value / held.from, heights());
      else {
        const [moved, still] = held.part === "low" ? [low, high] : [high, low], kept = mine().predict(still).value;
        state.alpha = limited(-Math.log(value / kept) / Math.log(moved / still), ALPHA);
        state.height = kept * (centre() / still) ** -state.alpha;
      }
      update();
    });
    for (const name of ["pointerup", "pointercancel"]) chart.picture.addEventListener(name, () => { held = null; });

    const show = () => {
      const fit = mine(), found = quality(), [low, high] = ends();
      const families = Object.keys(data.styles).sort((one) => (one === state.family ? 1 : -1));
      const laws = families.map((name) => law(all.filter((each) => each.family === name), data.styles[name], name === state.family ? fit : null, { faint: name !== state.family }));
      chart.draw(laws, { label: data.label, across: PARAMETERS, view: data.view,
        describe: `${data.label} of ${all.length} models against their size, both axes logarithmic; the line through ${state.family} has the exponent ${number(fit.alpha, 2)} and an R² of ${found.toFixed(3)}` });
      const at = (size) => [chart.x(size), chart.y(fit.predict(size).value)], colour = data.styles[state.family][0];
      const [from, to] = [at(low), at(high)];
      chart.picture.append(
        svg("path", { "data-part": "middle", class: "rbp-living-grip", d: `M${from}L${to}`, stroke: "transparent", "stroke-width": 30 }),
        ...[["low", from], ["high", to]].map(([part, [x, y]]) => svg("g", { "data-part": part, class: "rbp-living-grip" },
          svg("circle", { cx: x, cy: y, r: 18, fill: "transparent" }), svg("circle", { cx: x, cy: y, r: 8, fill: "var(--rbp-ground)", stroke: colour, "stroke-width": 2.5 }))));
      const [bottom, top] = heights();
      height.control.value = Math.log(state.height / bottom) / Math.log(top / bottom);
      slope.control.value = state.alpha;
      slope.said.textContent = "Slope";
      height.said.textContent = "Height";
      for (const { control } of [slope, height]) control.setAttribute("aria-valuetext", `α = ${state.alpha.toFixed(3)}, R² = ${found.toFixed(3)}`);
    };
    const told = () => {
      const fit = mine(), front = fit.predict(1).value;
      return [html("span", { class: "rbp-living-law" }, `${data.label} = `, said("prefactor", front, 3), " · S", html("sup", {}, `${state.alpha < 0 ? "" : "−"}${Math.abs(state.alpha).toFixed(3)}`)),
        html("b", {}, "exponent α = ", fixed("alpha", state.alpha, 3)), html("span", {}, "R² = ", fixed("r_squared", quality(), 3), ` (best ${fitted().r_squared.toFixed(3)})`)];
    };
    const draw = frame(root, "Drag the line, at its ends or between them.", chart, [family, slope.label, height.label, back], told, show);
  }

  // ── The largest models of a family, hidden and forecast

  function hide(root, data) {
    const all = rows(data.points), state = { family: data.family, k: data.k, hidden: data.hidden };
    const own = () => all.filter(({ family, k }) => family === state.family && k === state.k).sort((one, other) => one.size - other.size);
    const label = () => charts.measured("neg_log_rbp", state.k), LEFT = 3;
    const found = () => {
      const points = own(), seen = points.slice(0, points.length - state.hidden), fit = fits.power(seen);
      const missed = points.slice(seen.length).map((each) => ({ ...each, forecast: fit.predict(each.size).value }));
      return { points, fit, missed: missed.map((each) => ({ ...each, error: 100 * (each.forecast / each.value - 1) })) };
    };
    const chart = new Chart(), update = () => draw();
    const { slider } = controls("rbp-hide", update);
    const family = chips("hide-family", "Family", Object.entries(data.styles).map(([name, style]) => [name, name, style]), state.family, (name) => { state.family = name; update(); });
    const k = chips("hide-k", "Threshold", data.ks.map((each) => [each, `k = ${each}`]), state.k, (each) => { state.k = each; update(); });
    const count = slider("count", { min: 1, step: 1 }, (value) => { state.hidden = value; });
    const plainly = (error) => `${Math.abs(error).toFixed(1)} per cent too ${error < 0 ? "hopeful" : "gloomy"}`;

    const show = () => {
      const most = own().length - LEFT;
      state.hidden = Math.min(Math.max(state.hidden, 1), most);
      count.control.max = most;
      count.control.value = state.hidden;
      count.said.textContent = state.hidden === 1 ? "Hide the largest model" : `Hide the ${state.hidden} largest models`;
      const { points, fit, missed } = found(), style = data.styles[state.family], last = missed.at(-1);
      count.control.setAttribute("aria-valuetext", `${count.said.textContent}: ${short(last.model)} ${plainly(last.error)}`);
      const line = { alpha: fit.alpha, predict: (size) => ({ size, value: fit.predict(size).value }) };
      chart.draw([law(points, style, line, { hidden: new Set(missed.map(({ model }) => model)) })], { label: label(), across: PARAMETERS,
        describe: `${label()} of ${points.length} ${state.family} models against their size; the line is fitted without the ${missed.length} largest, and its forecast of the largest is ${plainly(last.error)}` });
      chart.picture.querySelector(".rbp-explorer-law").after(...missed.map(({ size, value, forecast }) => svg("path", { class: "rbp-living-miss", d: `M${chart.x(size)} ${chart.y(value)}V${chart.y(forecast)}` })));
    };
    const told = () => {
      const { fit, missed } = found(), last = missed.at(-1), hopeful = missed.filter(({ error }) => error < 0).length;
      return [html("span", {}, `${short(last.model)}: forecast `, said("forecast", last.forecast, 3), ", measured ", said("measured", last.value, 3)),
        html("b", {}, html("data", { value: last.error, "data-name": "error" }, plainly(last.error))),
        html("span", {}, `${hopeful} of ${missed.length} forecasts too hopeful; α = `, fixed("alpha", fit.alpha, 3))];
    };
    const draw = frame(root, "Hide the largest models: the line sees the others alone.", chart, [family, k, count.label], told, show);
  }

  // ── The same models after more and more tokens of training

  function longer(root, data) {
    const state = { series: 0, at: data.series[0].start };
    const series = () => data.series[state.series], now = () => series().frames[state.at];
    const tokens = (count) => (count >= 1e9 ? `${Number((count / 1e9).toPrecision(2))} billion` : `${Number((count / 1e6).toPrecision(2))} million`);
    const chart = new Chart(), update = () => draw();
    const { slider } = controls("rbp-longer", update);
    const which = chips("longer-series", "Models and measure", data.series.map(({ name, style }, i) => [i, name, style]), state.series, (i) => { Object.assign(state, { series: i, at: data.series[i].start }); update(); });
    const time = slider("time", { min: 0, step: 1 }, (value) => { state.at = value; });
    const show = () => {
      const { label, style, view, sizes, frames } = series(), { alpha, height, centre, values } = now();
      time.control.max = frames.length - 1;
      time.control.value = state.at;
      time.said.textContent = `${tokens(now().tokens)} tokens of training`;
      time.control.setAttribute("aria-valuetext", `${time.said.textContent}: α = ${alpha.toFixed(3)}`);
      const points = sizes.map((size, i) => ({ model: series().models[i], size, value: values[i] }));
      const end = frames.at(-1);
      chart.draw([law([], style, power(end.height, end.centre, end.alpha), { faint: true }), law(points, style, power(height, centre, alpha))], { label, across: PARAMETERS, view,
        describe: `${label} against model size after ${time.said.textContent}; the line has the exponent ${alpha.toFixed(3)}` });
    };
    const told = () => [html("span", {}, `after ${tokens(now().tokens)} tokens`), html("b", {}, "exponent α = ", fixed("alpha", now().alpha, 3)), html("span", {}, "faint: the end of training")];
    const draw = frame(root, "Move the slider: the models have read more.", chart, [which, time.label], told, show);
  }

  const CHARTS = { line, hide, longer };
  const begin = () => document.querySelectorAll(".rbp-living").forEach((root) => CHARTS[root.dataset.chart](root, JSON.parse(root.querySelector('script[type="application/json"]').textContent)));
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", begin);
  else begin();
})();
