// Shared by the charts of the pages: elements, numbers as text, markers, tables, and a chart of laws.
// Names come from data, a reader's own too: they are put into the page as text only.
"use strict";

const charts = (() => {
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
  const distinct = (values) => [...new Set(values)];
  const short = (model) => model.slice(model.lastIndexOf("/") + 1);

  const measured = (metric, k) => (metric === "cross_entropy" ? "cross-entropy (nats)" : `−ln RBP${String(k).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[digit])}`);

  // ── Points, as companion.chapters.forecasts.explorer writes them

  const rowsOf = (data) => data.points.map(([dataset, model, k, value]) => {
    const [name, family, size, source] = data.models[model];
    return { source, dataset: data.datasets[dataset], model: name, family, size, metric: k === null ? "cross_entropy" : "neg_log_rbp", k, value };
  });

  // ── Controls, whose names begin alike; update() follows each change

  function controls(prefix, update) {
    const id = (name) => `${prefix}-${name}`;
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
    const slider = (name, attributes, change) => {
      const reading = html("span"), control = html("input", { type: "range", id: id(name), ...attributes });
      control.addEventListener("input", () => { change(Number(control.value)); update(); });
      return { reading, control, label: html("label", { class: "rbp-explorer-slider" }, reading, control) };
    };
    return { id, labelled, options, select, slider };
  }

  // ── Markers, as Matplotlib draws them

  const polygon = (...corners) => `M${corners.map((corner) => corner.join(" ")).join("L")}Z`;
  const MARKERS = {
    o: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z",
    s: polygon([-4.5, -4.5], [4.5, -4.5], [4.5, 4.5], [-4.5, 4.5]),
    "^": polygon([0, -5.5], [5.5, 4.5], [-5.5, 4.5]),
    v: polygon([0, 5.5], [5.5, -4.5], [-5.5, -4.5]),
    "<": polygon([-5.5, 0], [4.5, -5.5], [4.5, 5.5]),
    ">": polygon([5.5, 0], [-4.5, -5.5], [-4.5, 5.5]),
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

  function ticks(low, high, most) {
    const sets = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]];
    let places = [];
    for (const set of sets) {
      places = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
        places.push(...set.map((each) => Number(`${each}e${power}`)).filter((each) => each >= low && each <= high));
      }
      if (places.length >= 3) break;
    }
    if (places.length < 3) {
      const rough = (high - low) / 4, unit = 10 ** Math.floor(Math.log10(rough));
      const step = unit * [1, 2, 5, 10].find((each) => each * unit >= rough);
      places = Array.from({ length: 9 }, (_, i) => Number(((Math.ceil(low / step) + i) * step).toPrecision(6))).filter((each) => each <= high);
    }
    const every = Math.ceil(places.length / most);
    return places.filter((_, i) => i % every === 0);
  }

  const within = ({ low, high }, value) => low <= value && value <= high;
  const GRAB = 14; // so near the dashed line a finger takes it

  class Chart {
    // onSize(size) while the forecast is dragged, onPoint(model) when a point is clicked; without them nothing is.
    constructor(onSize = null, onPoint = null) {
      this.picture = svg("svg", { role: "img", class: "rbp-explorer-chart" });
      this.title = html("figcaption");
      this.figure = html("figure", {}, this.title, this.picture);
      this.clip = `rbp-clip-${Chart.count = (Chart.count ?? 0) + 1}`;
      const at = (event) => this.at(event);
      let moved = false;
      this.picture.addEventListener("pointerdown", (event) => {
        moved = false;
        if (!this.x || !onSize || Math.abs(at(event)[0] - this.x(this.size)) > GRAB || this.nearest(at(event), 9)) return;
        this.held = this.range;
        this.picture.setPointerCapture(event.pointerId);
        event.preventDefault();
      });
      this.picture.addEventListener("pointermove", (event) => {
        if (!this.held) return;
        moved = true;
        onSize(this.x.back(at(event)[0]));
      });
      let released = [0, 0]; // a click's own place is in whole pixels; points lie closer together on a phone
      const drop = (event) => {
        released = at(event);
        if (this.held) { this.held = null; onSize(this.size); }
      };
      this.picture.addEventListener("pointerup", drop);
      this.picture.addEventListener("pointercancel", drop);
      this.picture.addEventListener("click", () => {
        const point = moved || !onPoint ? null : this.nearest(released, 16);
        if (point) onPoint(point.model);
      });
    }

    // Where an event is, in the drawing's own units: the page may pad the picture, and draw it smaller.
    at({ clientX, clientY }) {
      const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(this.picture.getScreenCTM().inverse());
      return [x, y];
    }

    nearest([x, y], reach) {
      const far = (point) => Math.hypot(this.x(point.size) - x, this.y(point.value) - y);
      const near = this.points.filter((point) => far(point) <= reach);
      return near.sort((a, b) => far(a) - far(b))[0] ?? null;
    }

    // laws: [{family, style, points, fit or null, out: Set of models, hidden: Set of models}]; a fit whose
    // forecasts have no intervals is a line alone. A hidden point outside its forecast's interval has a ring.
    // size: where a forecast is shown, or null.
    // Without a title the chart keeps the one that it has.
    draw(laws, { title = this.title.textContent, label, describe, size = null, across = "non-embedding parameters S" }) {
      const width = Math.max(260, this.picture.getBoundingClientRect().width), height = Math.min(400, Math.max(280, 0.62 * width));
      const left = 52, right = width - 12, top = 12, bottom = height - 44;
      this.points = laws.flatMap(({ points }) => points).filter(({ value }) => value > 0);
      this.size = size;
      this.title.textContent = title;
      this.picture.setAttribute("aria-label", describe);
      this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.picture.replaceChildren();
      if (!this.points.length) { this.x = null; return; }
      const sizes = this.points.map((point) => point.size);
      const places = size === null ? sizes : [...sizes, size];
      this.range = this.held ?? [Math.min(...places) / 1.6, Math.max(...places) * 1.6];
      const fitted = laws.filter(({ fit }) => fit).map(({ fit }) => fit);
      const ends = fitted.flatMap((fit) => [...this.range, ...places].map((each) => fit.predict(each).value));
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
      const lettering = (text, attributes) => svg("text", { fill: "currentColor", "font-size": 12, ...attributes }, text);
      for (const tick of ticks(...this.range, Math.floor(width / 70))) {
        draw(svg("path", { d: `M${x(tick)} ${top}V${bottom}`, stroke: "var(--rbp-grid)" }),
          lettering(number(tick, 1), { x: x(tick), y: bottom + 17, "text-anchor": "middle" }));
      }
      for (const tick of ticks(low, high, 7)) {
        draw(svg("path", { d: `M${left} ${y(tick)}H${right}`, stroke: "var(--rbp-grid)" }),
          lettering(String(Number(tick.toPrecision(3))), { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }));
      }
      draw(svg("path", { d: `M${left} ${top}V${bottom}H${right}`, fill: "none", stroke: "currentColor" }),
        lettering(across, { x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }),
        lettering(label, { x: 13, y: (top + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 13 ${(top + bottom) / 2})` }));
      draw(svg("clipPath", { id: this.clip }, svg("rect", { x: left, y: top, width: right - left, height: bottom - top })));
      const inside = svg("g", { "clip-path": `url(#${this.clip})` });
      draw(inside);
      const along = Array.from({ length: 61 }, (_, i) => this.range[0] * (this.range[1] / this.range[0]) ** (i / 60));
      const path = (points) => points.map(([at, value], i) => `${i ? "L" : "M"}${x(at).toFixed(2)} ${y(value).toFixed(2)}`).join("");
      for (const { fit, style: [colour] } of laws.filter((law) => law.fit)) {
        const law = along.map((each) => fit.predict(each));
        const edge = (name) => law.map((each) => [each.size, each[name]]);
        if ("low" in law[0]) inside.append(
          svg("path", { d: `${path(edge("mean_high"))}${path(edge("mean_low").reverse()).replace("M", "L")}Z`, fill: colour, opacity: 0.18 }),
          ...["low", "high"].map((name) => svg("path", { d: path(edge(name)), fill: "none", stroke: colour, "stroke-dasharray": "1 4", "stroke-linecap": "round", "stroke-width": 1.4 })));
        inside.append(svg("path", { class: "rbp-explorer-law", d: path(edge("value")), fill: "none", stroke: colour, "stroke-width": 1.8 }));
      }
      if (size !== null) draw(svg("path", { class: "rbp-explorer-at", d: `M${x(size)} ${top}V${bottom}`, stroke: "transparent", "stroke-width": 2 * GRAB }),
        svg("path", { class: "rbp-explorer-at", d: `M${x(size)} ${top}V${bottom}`, stroke: "currentColor", "stroke-dasharray": "5 4" }),
        svg("path", { class: "rbp-explorer-at", d: `M${x(size) - 7} ${bottom}h14l-7 -10Z`, fill: "currentColor" }));
      for (const { fit, style, points, out, hidden } of laws) {
        if (fit && size !== null) {
          const at = fit.predict(size), [from, to] = [at.low, at.high].map((value) => Math.min(Math.max(y(value), top), bottom));
          draw(svg("path", { d: `M${x(size)} ${from}V${to}M${x(size) - 5} ${from}h10M${x(size) - 5} ${to}h10`, fill: "none", stroke: style[0], "stroke-width": 2 }));
        }
        for (const point of points.filter(({ value }) => value > 0)) {
          const spot = [x(point.size), y(point.value)], gone = out.has(point.model), unseen = hidden.has(point.model) && !gone;
          const outside = unseen && "low" in (fit?.predict(point.size) ?? {}) && !within(fit.predict(point.size), point.value);
          const shown = svg("g", { class: "rbp-explorer-point" }, mark(style, spot, gone || unseen, points.length > 60 ? 0.6 : 1),
            svg("title", {}, `${short(point.model)}: ${number(point.value)}${gone ? " (left out)" : unseen ? ` (hidden from the fit${outside ? ", outside its interval" : ""})` : ""}`));
          if (outside) shown.append(svg("circle", { class: "rbp-explorer-outside", cx: spot[0], cy: spot[1], r: 10, fill: "none" }));
          if (gone) shown.append(svg("path", { d: `M${spot[0] - 6} ${spot[1] - 6}l12 12m0 -12l-12 12`, stroke: style[0], "stroke-width": 1.5 }));
          draw(shown);
        }
      }
    }
  }

  // ── A table

  function table(heads, lines, cards) {
    const cell = (content, i, { length }) => html("td", { class: "txt", "data-label": heads[i], colspan: i + 1 === length && length < heads.length && heads.length - i },
      html("span", {}, ...[content].flat()));
    return html("table", { class: cards ? "rbp-table rbp-cards" : "rbp-table" }, html("thead", {}, html("tr", {}, ...heads.map((head) => html("th", { class: "txt", scope: "col" }, head)))),
      html("tbody", {}, ...lines.map(({ family, cells: contents }) => html("tr", { "data-family": family }, ...contents.map(cell)))));
  }

  return { html, svg, number, percent, short, distinct, measured, swatch, rowsOf, controls, within, table, Chart };
})();
