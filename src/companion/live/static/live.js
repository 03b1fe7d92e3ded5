// The box "Rerun this chapter" as a form: ask for a run, watch it, look at its page, compare it, keep it or not.
"use strict";

(() => {
  const box = document.querySelector(".rbp-rerun");
  const chapter = (location.pathname.match(/\/notebooks\/(\w+)\.html$/) || [])[1];
  if (!box || !chapter) return;

  const ENDED = ["done", "failed", "cancelled", "cut off"];
  const UPLOADED = /runs\/live\/uploads\/[0-9a-f]{8}-/g; // before the name that a reader gave a table

  async function call(method, path, body, type) {
    const headers = { "X-RBP-Key": localStorage.getItem("rbp-key") || "" };
    if (body !== undefined) headers["Content-Type"] = type || "application/json";
    const answer = await fetch(path, { method, headers, body: type ? body : JSON.stringify(body) });
    if (answer.ok) return answer;
    let said = await answer.text();
    try {
      const { what, where, remedy } = JSON.parse(said);
      said = what + (where ? ` (${where})` : "") + (remedy ? `\n${remedy}` : "");
    } catch { /* plain text */ }
    throw new Error(said.trim() || `the server answered ${answer.status}`);
  }

  // Text only ever becomes a text node: a model may be called <script>.
  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value === true) element.setAttribute(key, "");
      else if (value !== false && value !== null) element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  }

  const form = make("form", { class: "rbp-form", "aria-label": "Run this chapter with other values" });
  const said = make("p", { class: "rbp-said", role: "alert" });
  const now = make("div", { class: "rbp-now", "aria-live": "polite" });
  const earlier = make("div", { class: "rbp-earlier" });
  const frame = make("div", { class: "rbp-shown" });
  const live = make("div", { class: "rbp-live" }, form, said, now, frame, earlier);

  const tell = (words) => {
    said.textContent = words ? String(words.message || words) : "";
    said.classList.toggle("rbp-error", words instanceof Error);
  };
  const attempt = (work) => async (event) => {
    event?.preventDefault();
    tell("");
    try { await work(event); } catch (error) { tell(error); }
  };

  // ── The form

  function control(field) {
    const id = `rbp-field-${field.name}`;
    const common = { id, name: field.name, "aria-describedby": `${id}-help` };
    if (field.kind === "source") return sourcesOf(field, common);
    if (field.choices && field.kind !== "text") {
      const options = field.choices.map(({ value, label }) =>
        make("option", { value, selected: value === field.shown }, label));
      return make("select", common, ...options);
    }
    if (field.kind === "flag") {
      const options = ["true", "false"].map((value) => make("option", { value, selected: value === field.shown }, value));
      return make("select", common, ...options);
    }
    if (field.kind === "number") {
      const { ge, gt, le, lt } = field.bounds; // a browser knows no open ends: the server refuses these
      const ends = { min: ge ?? gt ?? null, max: le ?? lt ?? null };
      return make("input", { ...common, ...ends, type: "number", step: field.type === "int" ? "1" : "any", value: field.shown });
    }
    return make("input", { ...common, type: "text", value: field.shown, autocomplete: "off" });
  }

  function sourcesOf(field, common) {
    const chosen = field.shown.split(",").map((name) => name.trim());
    const list = make("div", { class: "rbp-sources", role: "group", id: common.id });
    const add = ({ value, label }, checked) => {
      const input = make("input", { type: "checkbox", name: field.name, value, checked });
      list.append(make("label", {}, input, ` ${label}`));
      return input;
    };
    field.choices.forEach((choice) => add(choice, chosen.includes(choice.value)));
    const file = make("input", {
      type: "file", accept: ".csv,.parquet", "aria-label": `upload a table for ${field.name}`,
      onchange: attempt(async () => {
        if (!file.files.length) return;
        const [one] = file.files;
        tell(`Reading ${one.name} …`);
        const path = `/api/uploads/${encodeURIComponent(one.name)}`;
        const choice = await (await call("PUT", path, one, "application/octet-stream")).json();
        tell("");
        list.querySelectorAll("input").forEach((input) => { input.checked = false; });
        add(choice, false).checked = true; // the book's values are others
        file.value = "";
      }),
    });
    return make("div", {}, list, make("label", { class: "rbp-upload" }, "A table of your own (CSV, Parquet): ", file));
  }

  function given(fields) {
    const values = {};
    for (const field of fields) {
      if (field.kind === "source") {
        const chosen = [...form.querySelectorAll(`input[name="${field.name}"]:checked`)].map((input) => input.value);
        if (!chosen.length) throw new Error(`Choose a source for ${field.name}.`);
        if (chosen.join() !== field.shown.replace(/\s/g, "")) values[field.name] = chosen.join(",");
      } else {
        const value = form.elements[field.name].value;
        if (value !== field.shown) values[field.name] = value;
      }
    }
    return values;
  }

  function build(fields) {
    for (const field of fields) {
      const id = `rbp-field-${field.name}`;
      form.append(make("div", { class: "rbp-field" },
        make("label", { for: id }, make("code", {}, field.name)), control(field),
        make("small", { id: `${id}-help` }, field.help)));
    }
    form.append(make("div", { class: "rbp-do" }, make("button", { type: "submit" }, "Run this chapter"),
      make("button", { type: "reset" }, "The book's values")));
    form.addEventListener("submit", attempt(async () => {
      const run = await (await call("POST", "/api/runs", { chapter, parameters: given(fields) })).json();
      frame.replaceChildren();
      await list();
      await watch(run.id);
    }));
  }

  // ── A run

  let watched = null;

  async function watch(id) {
    watched = id;
    while (watched === id) {
      let run;
      try { run = await (await call("GET", `/api/runs/${id}`)).json(); } catch (error) { tell(error); return; }
      if (watched !== id) return;
      present(run);
      if (ENDED.includes(run.state)) {
        await list();
        if (run.state === "done") await show(id);
        return;
      }
      await new Promise((done) => setTimeout(done, 500));
    }
  }

  function present(run) {
    const [cell, of] = run.progress || [0, 0];
    const words = { waiting: "waiting for its turn", running: of ? `cell ${cell} of ${of}` : "starting" };
    const kept = now.querySelector("details")?.open;
    now.replaceChildren(
      make("p", {}, make("strong", {}, inWords(run)), ` — ${words[run.state] || run.state} `,
        ...(ENDED.includes(run.state) ? [] : [make("button", {
          type: "button", onclick: attempt(() => call("POST", `/api/runs/${run.id}/cancel`)),
        }, "Cancel")])),
      ...(run.state === "running"
        ? [make("progress", of ? { max: of, value: cell - 1, "aria-label": "cells executed" } : { "aria-label": "starting" })] : []),
      ...(run.message && ENDED.includes(run.state) ? [make("pre", { class: "rbp-message" }, run.message)] : []),
      make("details", { open: kept || false }, make("summary", {}, "What it says"), make("pre", {}, run.log || "nothing so far")));
  }

  function inWords(run) {
    const values = Object.entries(run.parameters).map(([name, value]) =>
      `${name} = ${Array.isArray(value) ? value.join(", ") : value}`);
    return values.join("; ").replace(UPLOADED, "") || "the book's values";
  }

  async function show(id) {
    const { address } = await (await call("POST", `/api/runs/${id}/show`)).json();
    frame.replaceChildren(
      make("p", {}, make("a", { href: address, target: "_blank", rel: "noopener" }, "Open this page by itself")),
      make("iframe", { src: address, sandbox: "allow-scripts allow-downloads", title: "The chapter as run" }));
  }

  // What a reader has asked for below it comes into view.
  async function reveal(work) {
    await work();
    frame.scrollIntoView({ block: "start" });
  }

  // ── Earlier runs

  async function list() {
    const runs = (await (await call("GET", "/api/runs")).json()).filter((run) => run.chapter === chapter);
    if (!runs.length) { earlier.replaceChildren(); return; }
    const marked = new Set([...earlier.querySelectorAll("input:checked")].map((input) => input.value));
    const rows = runs.map((run) => make("tr", {},
      make("td", {}, run.state === "done" ? make("input", {
        type: "checkbox", value: run.id, "aria-label": `compare ${inWords(run)}`,
        ...(marked.has(run.id) ? { checked: true } : {}),
      }) : ""),
      make("td", {}, inWords(run)), make("td", {}, run.when), make("td", {}, run.state),
      make("td", {}, make("div", { class: "rbp-do" },
        ...(run.state === "done" ? [
          make("button", { type: "button", onclick: attempt(() => reveal(() => show(run.id))) }, "Show"),
          make("button", { type: "button", onclick: attempt(() => download(run)) }, "Download"),
        ] : []),
        ...(ENDED.includes(run.state)
          ? [make("button", { type: "button", onclick: attempt(() => remove(run)) }, "Delete")]
          : [make("button", { type: "button", onclick: attempt(() => watch(run.id)) }, "Watch")])))));
    earlier.replaceChildren(
      make("h3", {}, "Runs of this chapter"),
      make("div", { class: "rbp-scroll", tabindex: "0" }, make("table", { class: "rbp-table" }, make("tbody", {}, ...rows))),
      ...(runs.filter((run) => run.state === "done").length > 1
        ? [make("button", { type: "button", onclick: attempt(() => reveal(compare)) }, "Compare the two that are ticked")] : []));
  }

  async function download(run) {
    const data = await (await call("GET", `/api/runs/${run.id}/zip`)).blob();
    const link = make("a", { href: URL.createObjectURL(data), download: `${run.chapter}-${run.id}.zip` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  async function remove(run) {
    await call("DELETE", `/api/runs/${run.id}`);
    frame.replaceChildren();
    if (watched === run.id) { watched = null; now.replaceChildren(); }
    await list();
  }

  async function compare() {
    const two = [...earlier.querySelectorAll("input:checked")].map((input) => input.value);
    if (two.length !== 2) throw new Error("Tick two finished runs.");
    const { runs, rows } = await (await call("GET", `/api/compare/${two[0]}/${two[1]}`)).json();
    const number = (value) => (typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(5) : String(value ?? "–"));
    const apart = rows.filter(([, one, other]) => one !== other);
    const head = [make("th", {}, "Value"), ...runs.map((run) => make("th", { class: "num" }, inWords(run)))];
    const body = apart.map(([key, one, other]) => make("tr", {}, make("td", {}, key),
      make("td", { class: "num" }, number(one)), make("td", { class: "num" }, number(other))));
    frame.replaceChildren(
      make("h3", {}, `${apart.length} of ${rows.length} values differ`),
      make("div", { class: "rbp-scroll", tabindex: "0" }, make("table", { class: "rbp-table rbp-compared" },
        make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body))));
  }

  (async () => {
    let about;
    try { about = await (await call("GET", `/api/chapters/${chapter}`)).json(); } catch { return; } // the command stays
    build(about.fields);
    const command = make("details", {}, make("summary", {}, "The same on the command line"));
    command.append(...box.childNodes);
    box.append(live, command);
    await list().catch(tell);
    const going = (await (await call("GET", "/api/runs")).json()).find((run) => run.chapter === chapter && !ENDED.includes(run.state));
    if (going) await watch(going.id);
  })();
})();
