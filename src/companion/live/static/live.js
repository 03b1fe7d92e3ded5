// "Run with your data", at the top of a chapter: a form beside the page of the run. Watch, compare, keep and delete runs.
"use strict";

(() => {
  const start = document.querySelector(".rbp-start a");
  const chapter = (location.pathname.match(/\/notebooks\/(\w+)\.html$/) || [])[1];
  if (!start || !chapter) return;

  const ENDED = ["done", "failed", "cancelled", "cut off"];
  const FORM = `rbp-form-${chapter}`; // what a reader has filled in, for the next visit
  const UPLOAD = "rbp-upload"; // the last table: other chapters offer it too

  class NoAnswer extends Error {}

  async function call(method, path, body, type) {
    const headers = { "X-RBP-Key": localStorage.getItem("rbp-key") || "" };
    if (body !== undefined) headers["Content-Type"] = type || "application/json";
    let answer;
    try {
      answer = await fetch(path, { method, headers, body: type ? body : JSON.stringify(body) });
    } catch {
      throw new NoAnswer("The server does not answer. Start it again (rbp serve, on the same port): this page then continues.");
    }
    if (answer.ok) return answer;
    let reason = await answer.text();
    try {
      const { what, where, remedy } = JSON.parse(reason);
      reason = what + (where ? ` (${where})` : "") + (remedy ? `\n${remedy}` : "");
    } catch { /* plain text */ }
    throw new Error(reason.trim() || `the server answered ${answer.status}`);
  }

  const json = async (...request) => (await call(...request)).json();

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
  const status = make("p", { class: "rbp-said", role: "alert" });
  const earlier = make("div", { class: "rbp-earlier" });
  const hint = make("p", { class: "rbp-hint" }, "The page of the run will stand here.");
  const shown = make("div", { class: "rbp-shown" }, hint);

  const report = (words) => {
    status.textContent = words ? String(words.message || words) : "";
    status.classList.toggle("rbp-error", words instanceof Error);
  };
  // A button does one thing at a time: it rests while its work goes on.
  const attempt = (work) => async (event) => {
    event?.preventDefault();
    report("");
    const button = event?.submitter || event?.currentTarget;
    if (button) button.disabled = true;
    try { await work(event); } catch (error) { report(error); }
    if (button) button.disabled = false;
  };
  const button = (text, work) => make("button", { type: "button", onclick: attempt(work) }, text);

  // ── The form

  const saved = () => JSON.parse(localStorage.getItem(FORM) || "{}");
  const keep = () => localStorage.setItem(FORM, JSON.stringify(values(fields)));
  let fields = [], chapterTitle = "";
  let uploading = null; // a table on its way, for which a run waits

  function control(field) {
    const id = `rbp-field-${field.name}`;
    const common = { id, name: field.name, "aria-describedby": `${id}-help` };
    if (field.kind === "source") return sourcesOf(field, common);
    const choices = field.kind === "flag" ? ["true", "false"].map((value) => ({ value, label: value })) : field.choices;
    if (choices && field.kind !== "text") {
      return make("select", common, ...choices.map(({ value, label }) =>
        make("option", { value, selected: value === field.shown }, label)));
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
    const uploaded = make("div"), shipped = make("details", {}, make("summary", {}, "The book’s data"));
    const list = make("div", { class: "rbp-sources", role: "group", id: common.id });
    const add = ({ value, label }, checked, latest) => {
      list.querySelector(`input[value="${CSS.escape(value)}"]`)?.closest("div").remove(); // the same file again
      const input = make("input", { type: "checkbox", name: field.name, value, checked });
      const row = make("div", {}, make("label", {}, input, ` ${label}`));
      if (value.startsWith("upload-")) {
        const remove = button("Delete", async () => {
          if (!confirm(`Delete ${label}?`)) return;
          await call("DELETE", `/api/uploads/${value}`);
          row.remove();
          keep();
        });
        remove.setAttribute("aria-label", `delete ${label}`);
        row.append(" ", remove);
      }
      (value.startsWith("upload-") ? uploaded : shipped)[latest ? "prepend" : "append"](row);
      return input;
    };
    field.choices.forEach((choice) => add(choice, chosen.includes(choice.value), false));
    const upload = async (table) => {
      report(`Reading ${table.name} …`);
      const choice = await json("PUT", `/api/uploads/${encodeURIComponent(table.name)}`, table, "application/octet-stream");
      report("");
      list.querySelectorAll("input").forEach((input) => { input.checked = false; });
      add(choice, false, true).checked = true; // the book's values are others
      localStorage.setItem(UPLOAD, choice.value);
      keep();
    };
    const file = make("input", {
      type: "file", accept: ".csv,.parquet", "aria-label": `upload a table for ${field.name}`,
      onchange: attempt(async () => {
        if (!file.files.length) return;
        const [table] = file.files;
        file.value = "";
        await (uploading = upload(table).finally(() => { uploading = null; }));
      }),
    });
    list.append(make("label", { class: "rbp-upload" }, "A table of your own (CSV, Parquet): ", file), uploaded, shipped);
    return list;
  }

  function values(all) {
    const changed = {};
    for (const field of all) {
      const value = field.kind === "source"
        ? [...form.querySelectorAll(`input[name="${field.name}"]:checked`)].map((input) => input.value).join(",")
        : form.elements[field.name].value;
      if (value !== (field.kind === "source" ? field.shown.replace(/\s/g, "") : field.shown)) changed[field.name] = value;
    }
    return changed;
  }

  function fill(given) {
    for (const [name, value] of Object.entries(given)) {
      const boxes = [...form.querySelectorAll(`input[type=checkbox][name="${name}"]`)];
      const known = boxes.some((each) => value.split(",").includes(each.value));
      if (known) boxes.forEach((each) => { each.checked = value.split(",").includes(each.value); });
      else if (!boxes.length && form.elements[name]) form.elements[name].value = value;
    }
  }

  function build() {
    const row = (field) => {
      const id = `rbp-field-${field.name}`;
      return make("div", { class: "rbp-field" }, make("label", { for: id }, field.label, " ", make("code", {}, field.name)),
        control(field), make("small", { id: `${id}-help` }, field.help));
    };
    const first = fields.filter((field) => field.name === "measurements");
    const name = make("input", { type: "text", id: "rbp-name", autocomplete: "off", maxlength: "80" });
    form.append(...first.map(row),
      make("div", { class: "rbp-field" }, make("label", { for: "rbp-name" }, "Name"), name, make("small", {}, "of this run, if you like")),
      make("div", { class: "rbp-do" }, make("button", { type: "submit" }, "Run this chapter"),
        make("button", { type: "reset" }, "The book’s values")),
      ...fields.filter((field) => !first.includes(field)).map(row));
    const upload = localStorage.getItem(UPLOAD);
    fill(localStorage.getItem(FORM) ? saved() : upload && first.length ? { measurements: upload } : {});
    form.addEventListener("input", keep);
    form.addEventListener("reset", () => setTimeout(keep));
    form.addEventListener("submit", attempt(async () => {
      if (uploading) {
        report("The run waits for the table …");
        await uploading;
      }
      const empty = fields.find((field) => field.kind === "source" && field.shown && values([field])[field.name] === "");
      if (empty) throw new Error(`Choose a source: ${empty.label}.`);
      const run = await json("POST", "/api/runs", { chapter, parameters: values(fields), name: name.value });
      if (run.state === "done") report("This run was made before, and is shown again.");
      await list();
      watch(run.id);
    }));
  }

  // ── A run

  let watched = null;
  const now = (() => { // built once: what changes in it is text, so that buttons keep the focus
    const heading = make("h2"), title = make("strong"), state = make("span"), log = make("pre"), message = make("pre", { class: "rbp-message" });
    const cancel = button("Cancel", () => call("POST", `/api/runs/${watched}/cancel`));
    const bar = make("progress", { "aria-label": "cells executed" });
    const root = make("div", { class: "rbp-now", hidden: true }, heading, make("p", {}, title, " — ", state, " ", cancel), bar,
      message, make("details", {}, make("summary", {}, "What it says"), log));
    return { root, show(run) {
      const [cell, of] = run.progress || [0, 0];
      const words = { waiting: "waiting for its turn", running: of ? `cell ${cell} of ${of}` : "starting" };
      const ended = ENDED.includes(run.state);
      root.hidden = false;
      heading.textContent = chapterTitle;
      title.textContent = inWords(run);
      state.textContent = words[run.state] || run.state;
      cancel.hidden = ended;
      bar.hidden = run.state !== "running";
      if (of) { bar.max = of; bar.value = cell - 1; } else bar.removeAttribute("value");
      message.textContent = ended ? run.message : "";
      log.textContent = run.log || "nothing so far";
    }, stall() { state.textContent = "no answer"; bar.hidden = true; } };
  })();

  async function watch(id) {
    watched = id;
    shown.replaceChildren(); // what it shows is of another run
    let first = true;
    while (watched === id) {
      let pause = 500;
      try {
        const run = await json("GET", `/api/runs/${id}`);
        if (watched !== id) return;
        if (status.textContent.startsWith("The server does not answer")) report("");
        now.show(run);
        if (first && narrow()) now.root.scrollIntoView({ block: "start" });
        first = false;
        if (ENDED.includes(run.state)) {
          await list();
          if (run.state === "done") await show(id);
          return;
        }
      } catch (error) {
        report(error);
        if (!(error instanceof NoAnswer)) return;
        now.stall();
        pause = 2000;
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  const inWords = (run) => (run.name ? `${run.name}: ` : "") + (run.words || "an earlier run");

  const narrow = () => matchMedia("(max-width: 900px)").matches;

  function present(address, title) {
    now.root.hidden = true;
    shown.replaceChildren(
      make("p", {}, make("a", { href: address, target: "_blank", rel: "noopener" }, "Open this page by itself")),
      make("iframe", { src: address, sandbox: "allow-scripts allow-downloads", title }));
    if (narrow()) shown.scrollIntoView({ block: "start" });
  }

  async function show(id) {
    present((await json("POST", `/api/runs/${id}/show`)).address, "The chapter as run");
  }

  // ── Earlier runs

  async function list() {
    const runs = (await json("GET", "/api/runs")).filter((run) => run.chapter === chapter);
    if (!runs.length) { earlier.replaceChildren(); return; }
    const marked = new Set([...earlier.querySelectorAll("input:checked")].map((input) => input.value));
    const rows = runs.map((run) => make("tr", {},
      make("td", {}, run.state === "done" ? make("input", {
        type: "checkbox", value: run.id, "aria-label": `compare ${inWords(run)}`, checked: marked.has(run.id),
      }) : ""),
      make("td", {}, inWords(run), make("br"), make("small", {}, `${run.when}, ${run.state}`)),
      make("td", {}, make("div", { class: "rbp-do" },
        ...(run.state === "done" ? [button("Show", () => show(run.id)), button("Download", () => download(run))] : []),
        ENDED.includes(run.state) ? button("Delete", () => remove(run)) : button("Watch", async () => { watch(run.id); })))));
    earlier.replaceChildren(
      make("h3", {}, "Runs of this chapter"),
      make("div", { class: "rbp-scroll", tabindex: "0" }, make("table", { class: "rbp-table" }, make("tbody", {}, ...rows))),
      ...(runs.filter((run) => run.state === "done").length > 1 ? [button("Compare the ticked runs", compare)] : []));
  }

  async function download(run) {
    const answer = await call("GET", `/api/runs/${run.id}/zip`);
    const name = decodeURIComponent(answer.headers.get("content-disposition").split("''")[1]);
    const link = make("a", { href: URL.createObjectURL(await answer.blob()), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  async function remove(run) {
    if (!confirm(`Delete the run ${inWords(run)}?`)) return;
    await call("DELETE", `/api/runs/${run.id}`);
    shown.replaceChildren(hint);
    if (watched === run.id) { watched = null; now.root.hidden = true; }
    await list();
  }

  async function compare() {
    const runs = [...earlier.querySelectorAll("input:checked")].map((input) => input.value);
    present((await json("POST", "/api/compare", { runs })).address, "Runs compared");
  }

  // ── Where it opens

  const studio = make("dialog", { class: "rbp-studio rbp-live", "aria-label": "Run this chapter" },
    make("div", { class: "rbp-side" }, make("div", { class: "rbp-do" }, make("h2", {}, "Run with your data"),
      make("button", { type: "button", onclick: () => studio.close() }, "Back to the chapter")), form, status, earlier),
    make("div", { class: "rbp-outcome" }, now.root, shown));
  const open = () => { sessionStorage.setItem("rbp-open", chapter); if (!studio.open) studio.showModal(); };

  (async () => {
    try { ({ fields, title: chapterTitle } = await json("GET", `/api/chapters/${chapter}`)); } catch { return; } // the command stays
    build();
    document.body.append(studio);
    start.addEventListener("click", (event) => { event.preventDefault(); open(); });
    studio.addEventListener("close", () => sessionStorage.removeItem("rbp-open"));
    start.classList.add("rbp-ready"); // before, it leads to the command
    await list().catch(report);
    const going = (await json("GET", "/api/runs")).find((run) => run.chapter === chapter && !ENDED.includes(run.state));
    if (going || sessionStorage.getItem("rbp-open") === chapter) open();
    if (going) await watch(going.id);
  })();
})();
