// The fit explorer: the points of the page, the fits of fits.js, and a chart, tables and commands of what is chosen.
// Names come from data, a reader's own too: they are put into the page as text only.
"use strict";

(() => {
  const WORDS = { neg_log_rbp: "−ln RBP", cross_entropy: "cross-entropy" };
  const LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99, 0.999];
  const SIZES = [3, 15]; // forecasts: powers of ten

  // ── Elements

  const builder = (space) => (name, attributes = {}, ...children) => {
    const element = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === true) element.setAttribute(key, "");
      else if (value !== false && value != null) element.setAttribute(key, value);
    }
    element.append(...children.filter((child) => child != null));
    return element;
  };
  const html = builder("http://www.w3.org/1999/xhtml"), svg = builder("http://www.w3.org/2000/svg");

  // ── Numbers as text

  const raised = (power) => String(power).replace(/[-\d]/g, (sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign]));
  function number(value, digits = 4) {
    if (value === Infinity) return "∞";
    if (value === -Infinity) return "−∞";
    const [mantissa, power] = value.toExponential(digits - 1).split("e").map(Number);
    const short = value !== 0 && power >= -4 && power < Math.max(digits, 4);
    const text = value === 0 ? "0" : short ? value.toPrecision(Math.max(digits, power + 1)) : `${mantissa === 1 ? "" : `${mantissa}·`}10${raised(power)}`;
    return text.replace("-", "−");
  }
  const percent = (level) => `${Number((100 * level).toPrecision(4))}%`;
  const short = (model) => model.slice(model.lastIndexOf("/") + 1);
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`); // for a shell

  // ── A table of one's own: the rules of `rbp fit`, with the line

  class Wrong extends Error {}
  const COLUMNS = ["dataset", "model", "family", "size", "metric", "k", "value"], OPTIONAL = ["tokens", "hits", "source"];

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
    return body.map(({ line, row }) => {
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
        const value = real(name);
        return Number.isSafeInteger(value) && value >= 1 ? value : fail(`${name} must be a whole number of at least 1`);
      };
      for (const name of ["dataset", "model", "family", "metric"]) if (!cell[name]) fail(`${name} is empty`);
      if (!Object.hasOwn(WORDS, cell.metric)) fail(`metric must be one of ${Object.keys(WORDS).join(", ")}, not “${cell.metric}”`);
      if ((cell.metric === "neg_log_rbp") !== Boolean(cell.k)) fail("neg_log_rbp needs a threshold k, and cross_entropy has none");
      const found = { source, dataset: cell.dataset, model: cell.model, family: cell.family, metric: cell.metric, size: count("size"),
        k: cell.k ? count("k") : null, value: real("value"), tokens: cell.tokens ? count("tokens") : null };
      if (found.value < 0) fail("value must not be negative");
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
    });
  }
  const place = ({ dataset, model, k }) => JSON.stringify([dataset, model, k]);

  // ── Markers, as Matplotlib draws them

  const polygon = (...corners) => `M${corners.map((corner) => corner.join(" ")).join("L")}Z`;
  const MARKERS = {
    o: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z",
    s: polygon([-4.5, -4.5], [4.5, -4.5], [4.5, 4.5], [-4.5, 4.5]),
    "^": polygon([0, -5.5], [5.5, 4.5], [-5.5, 4.5]),
    v: polygon([0, 5.5], [5.5, -4.5], [-5.5, -4.5]),
    D: polygon([0, -6], [6, 0], [0, 6], [-6, 0]),
    P: polygon([-2, -5.5], [2, -5.5], [2, -2], [5.5, -2], [5.5, 2], [2, 2], [2, 5.5], [-2, 5.5], [-2, 2], [-5.5, 2], [-5.5, -2], [-2, -2]),
    "*": polygon(...Array.from({ length: 10 }, (_, i) => [Math.sin(i * Math.PI / 5) * (i % 2 ? 2.8 : 6.5), -Math.cos(i * Math.PI / 5) * (i % 2 ? 2.8 : 6.5)])),
  };
  MARKERS.X = MARKERS.P;
  const mark = ([colour, marker], at, hollow = false, scale = 1) => svg("path", {
    d: MARKERS[marker], transform: `translate(${at[0]} ${at[1]}) scale(${scale})${marker === "X" ? " rotate(45)" : ""}`,
    fill: hollow ? "var(--rbp-ground)" : colour, stroke: colour, "stroke-width": hollow ? 1.8 : 0.5,
  });
  const swatch = (style) => svg("svg", { width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true" }, mark(style, [0, 0]));

  // ── The chart

  function ticks(low, high, wanted) {
    const sets = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]];
    let found = [];
    for (const set of sets) {
      found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
        found.push(...set.map((each) => Number(`${each}e${power}`)).filter((each) => each >= low && each <= high));
      }
      if (found.length >= 3) break;
    }
    if (found.length < 3) {
      const rough = (high - low) / 4, unit = 10 ** Math.floor(Math.log10(rough));
      const step = unit * [1, 2, 5, 10].find((each) => each * unit >= rough);
      found = Array.from({ length: 9 }, (_, i) => Number(((Math.ceil(low / step) + i) * step).toPrecision(6))).filter((each) => each <= high);
    }
    const every = Math.ceil(found.length / wanted);
    return found.filter((_, i) => i % every === 0);
  }

  class Chart {
    // onSize(size) while the forecast is dragged, onPoint(model) when a point is clicked.
    constructor(onSize, onPoint) {
      this.picture = svg("svg", { role: "img", class: "rbp-explorer-chart" });
      this.title = html("figcaption");
      this.figure = html("figure", {}, this.title, this.picture);
      this.clip = `rbp-clip-${Chart.count = (Chart.count ?? 0) + 1}`;
      const at = (event) => { const box = this.picture.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
      let moved = false;
      this.picture.addEventListener("pointerdown", (event) => {
        moved = false;
        if (!this.x || Math.abs(at(event)[0] - this.x(this.size)) > 14 || this.nearest(at(event), 9)) return;
        this.held = this.range;
        this.picture.setPointerCapture(event.pointerId);
        event.preventDefault();
      });
      this.picture.addEventListener("pointermove", (event) => {
        if (!this.held) return;
        moved = true;
        onSize(this.x.back(at(event)[0]));
      });
      const drop = () => { if (this.held) { this.held = null; onSize(this.size); } };
      this.picture.addEventListener("pointerup", drop);
      this.picture.addEventListener("pointercancel", drop);
      this.picture.addEventListener("click", (event) => {
        const point = moved ? null : this.nearest(at(event), 16);
        if (point) onPoint(point.model);
      });
    }

    nearest([x, y], reach) {
      const far = (point) => Math.hypot(this.x(point.size) - x, this.y(point.value) - y);
      const near = this.points.filter((point) => far(point) <= reach);
      return near.sort((a, b) => far(a) - far(b))[0] ?? null;
    }

    // laws: [{family, style, points, fit or null, out: Set of models, hidden: Set of models}]
    draw(laws, title, label, size, describe) {
      const width = Math.max(260, this.figure.clientWidth), height = Math.min(400, Math.max(280, 0.62 * width));
      const left = 52, right = width - 12, top = 12, bottom = height - 44;
      this.points = laws.flatMap(({ points }) => points).filter(({ value }) => value > 0);
      this.size = size;
      this.title.textContent = title;
      this.picture.setAttribute("aria-label", describe);
      this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.picture.replaceChildren();
      if (!this.points.length) { this.x = null; return; }
      const sizes = this.points.map((point) => point.size);
      this.range = this.held ?? [Math.min(...sizes, size) / 1.6, Math.max(...sizes, size) * 1.6];
      const fitted = laws.filter(({ fit }) => fit).map(({ fit }) => fit);
      const ends = fitted.flatMap((fit) => [...this.range, size].map((each) => fit.predict(each).value));
      const values = [...this.points.map(({ value }) => value), ...ends].filter((value) => value > 1e-12 && Number.isFinite(value));
      const [low, high] = [Math.min(...values) / 1.12, Math.max(...values) * 1.12];
      const scale = ([from, to], [start, end]) => {
        const unit = (end - start) / Math.log(to / from);
        const map = (value) => Math.min(Math.max(start + unit * Math.log(value / from), -1e5), 1e5);
        map.back = (pixel) => from * Math.exp((pixel - start) / unit);
        return map;
      };
      this.x = scale(this.range, [left, right]);
      this.y = scale([low, high], [bottom, top]);
      const { x, y } = this, draw = (...parts) => this.picture.append(...parts);
      const written = (text, attributes) => svg("text", { fill: "currentColor", "font-size": 12, ...attributes }, text);
      for (const tick of ticks(...this.range, Math.floor(width / 70))) {
        draw(svg("path", { d: `M${x(tick)} ${top}V${bottom}`, stroke: "var(--rbp-grid)" }),
          written(number(tick, 1), { x: x(tick), y: bottom + 17, "text-anchor": "middle" }));
      }
      for (const tick of ticks(low, high, 7)) {
        draw(svg("path", { d: `M${left} ${y(tick)}H${right}`, stroke: "var(--rbp-grid)" }),
          written(String(Number(tick.toPrecision(3))), { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }));
      }
      draw(svg("path", { d: `M${left} ${top}V${bottom}H${right}`, fill: "none", stroke: "currentColor" }),
        written("non-embedding parameters S", { x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }),
        written(label, { x: 13, y: (top + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 13 ${(top + bottom) / 2})` }));
      draw(svg("clipPath", { id: this.clip }, svg("rect", { x: left, y: top, width: right - left, height: bottom - top })));
      const inside = svg("g", { "clip-path": `url(#${this.clip})` });
      draw(inside);
      const along = Array.from({ length: 61 }, (_, i) => this.range[0] * (this.range[1] / this.range[0]) ** (i / 60));
      const path = (points) => points.map(([at, value], i) => `${i ? "L" : "M"}${x(at).toFixed(2)} ${y(value).toFixed(2)}`).join("");
      for (const { fit, style: [colour] } of laws.filter((law) => law.fit)) {
        const law = along.map((each) => fit.predict(each));
        const edge = (name) => law.map((each) => [each.size, each[name]]);
        inside.append(
          svg("path", { d: `${path(edge("mean_high"))}${path(edge("mean_low").reverse()).replace("M", "L")}Z`, fill: colour, opacity: 0.18 }),
          ...["low", "high"].map((name) => svg("path", { d: path(edge(name)), fill: "none", stroke: colour, "stroke-dasharray": "1 4", "stroke-linecap": "round", "stroke-width": 1.4 })),
          svg("path", { d: path(edge("value")), fill: "none", stroke: colour, "stroke-width": 1.8 }));
      }
      draw(svg("path", { class: "rbp-explorer-at", d: `M${x(size)} ${top}V${bottom}`, stroke: "currentColor", "stroke-dasharray": "5 4" }),
        svg("path", { class: "rbp-explorer-at", d: `M${x(size) - 7} ${bottom}h14l-7 -10Z`, fill: "currentColor" }));
      for (const { fit, style, points, out, hidden } of laws) {
        if (fit) {
          const at = fit.predict(size), [from, to] = [at.low, at.high].map((value) => Math.min(Math.max(y(value), top), bottom));
          draw(svg("path", { d: `M${x(size)} ${from}V${to}M${x(size) - 5} ${from}h10M${x(size) - 5} ${to}h10`, fill: "none", stroke: style[0], "stroke-width": 2 }));
        }
        for (const point of points.filter(({ value }) => value > 0)) {
          const spot = [x(point.size), y(point.value)], gone = out.has(point.model);
          const shown = svg("g", { class: "rbp-explorer-point" }, mark(style, spot, gone || hidden.has(point.model), points.length > 60 ? 0.6 : 1),
            svg("title", {}, `${short(point.model)}: ${number(point.value)}${gone ? " (left out)" : hidden.has(point.model) ? " (hidden from the fit)" : ""}`));
          if (gone) shown.append(svg("path", { d: `M${spot[0] - 6} ${spot[1] - 6}l12 12m0 -12l-12 12`, stroke: style[0], "stroke-width": 1.5 }));
          draw(shown);
        }
      }
    }
  }

  // ── The explorer

  function start(root) {
    const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    const titles = new Map(Object.entries(data.labels)), title = (name) => titles.get(name) ?? name;
    let rows = data.points.map(([dataset, model, k, value, tokens]) => {
      const [name, family, size, source] = data.models[model];
      return { source, dataset: data.datasets[dataset], model: name, family, size, metric: k === null ? "cross_entropy" : "neg_log_rbp", k, value, tokens };
    });
    const state = { metric: "neg_log_rbp", k: 10, dataset: "wikipedia", families: ["Pythia"], without: new Set(), weights: false,
      offset: false, level: 0.95, at: 1e12, hide: 0 };
    const distinct = (values) => [...new Set(values)];
    const datasets = () => distinct(rows.map(({ dataset }) => dataset));
    const families = () => distinct(here().map(({ family }) => family)).sort();
    const here = () => rows.filter(({ dataset }) => dataset === state.dataset);
    const pointsOf = (family, metric) => here()
      .filter((row) => row.family === family && row.metric === metric && (metric === "cross_entropy" || row.k === state.k))
      .sort((a, b) => a.size - b.size || (a.model < b.model ? -1 : 1));
    const style = (family) => {
      const unknown = distinct(rows.map((row) => row.family)).filter((each) => !Object.hasOwn(data.styles, each)).sort();
      return Object.hasOwn(data.styles, family) ? data.styles[family] : data.spare[unknown.indexOf(family) % data.spare.length];
    };

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

    const id = (name) => `rbp-explorer-${name}`;
    const labelled = (text, control) => html("div", { class: "rbp-explorer-field" }, html("label", { for: control.id }, text), control);
    const select = (name, change) => {
      const control = html("select", { id: id(name) });
      control.addEventListener("change", () => { change(control.value); update(); });
      return control;
    };
    const options = (control, entries, value) => {
      control.replaceChildren(...entries.map(([key, text]) => html("option", { value: key }, text)));
      control.value = String(value);
    };
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
    const slider = (name, attributes, change) => {
      const said = html("span"), control = html("input", { type: "range", id: id(name), ...attributes });
      control.addEventListener("input", () => { change(Number(control.value)); update(); });
      return { said, control, label: html("label", { class: "rbp-explorer-slider" }, said, control) };
    };
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

    const measure = (name) => (name === "cross_entropy" ? "cross-entropy (nats)" : `−ln RBP${String(state.k).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[digit])}`);
    const shown = (name, value, digits) => html("data", { value, "data-name": name }, number(value, digits));
    const between = (name, low, high, digits) => [shown(`${name}_low`, low, digits), " to ", shown(`${name}_high`, high, digits)];
    function table(heads, lines, cards) {
      const cell = (content, i, { length }) => html("td", { class: "txt", "data-label": heads[i], colspan: i + 1 === length && length < heads.length && heads.length - i },
        html("span", {}, ...[content].flat()));
      return html("table", { class: cards ? "rbp-table rbp-cards" : "rbp-table" }, html("thead", {}, html("tr", {}, ...heads.map((head) => html("th", { class: "txt", scope: "col" }, head)))),
        html("tbody", {}, ...lines.map(({ family, cells: contents }) => html("tr", { "data-family": family }, ...contents.map(cell)))));
    }

    function tell(laws) {
      const interval = `${percent(state.level)} interval`;
      const heads = ["Family", "Models", "α", interval, ...(state.offset ? ["E", `${interval} of E`] : ["R²"]), `at S = ${number(state.at)}`, `${interval} of a new model`];
      results.replaceChildren(table(heads, laws.map(({ family, style: look, seen, fit, why }) => {
        const name = [swatch(look), " ", family];
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
        const { value, low, high } = law.fit.predict(point.size), inside = low <= point.value && point.value <= high;
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
        modelBox.replaceChildren(...listed.map(([family, models]) => html("fieldset", {}, html("legend", {}, family), html("div", { class: "rbp-explorer-models" }, ...models.map(([model, size]) => {
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
          return html("label", { class: "rbp-explorer-check" }, box, swatch(style(family)), family);
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
      const laws = lawsOf(state.metric), seen = laws.map(({ family, seen: left, points }) => `${left.length} of ${points.length} ${family}`);
      hide.said.textContent = `Hide the largest ${state.hide}: the fit sees ${seen.join(", ")} models`;
      hide.control.setAttribute("aria-valuetext", hide.said.textContent);
      const other = state.metric === "cross_entropy" ? "neg_log_rbp" : "cross_entropy", beside = state.hide ? lawsOf(other) : [];
      const sides = [{ label: measure(state.metric), laws }, ...(beside.length ? [{ label: measure(other), laws: beside }] : [])];
      charts[1].figure.hidden = !beside.length;
      chartBox.classList.toggle("rbp-explorer-two", beside.length > 0);
      sides.forEach(({ label, laws: drawn }, i) => {
        const slopes = drawn.filter(({ fit }) => fit).map(({ family, fit }) => `${family}: α = ${number(fit.alpha)}`).join("; ");
        const where = title(state.dataset);
        charts[i].draw(drawn, `${label} on ${where}`, label, state.at, `Log-log chart of ${label} against model size on ${where}. ${slopes}`);
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
