// The claims ledger: filters, and bars that move. The rules are those of companion.ledger.rules, as data of the page.
"use strict";

const ledger = (() => {
  const HOLDS = "holds", PART = "holds in part", FAILS = "does not hold", UNDECIDED = "not decided";
  const COMPARE = { ">=": (a, b) => a >= b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, "<": (a, b) => a < b };

  // `at` holds the bars by their names.
  function value(node, at) {
    if (typeof node === "string") return at[node];
    if (!Array.isArray(node)) return node;
    const [, values, sign, than] = node, bar = value(than, at);
    return values.filter((each) => COMPARE[sign](each, bar)).length / values.length;
  }
  function met(node, at) {
    if (!Array.isArray(node)) return node;
    const [sign, ...parts] = node;
    if (sign === "not") return !met(parts[0], at);
    if (sign === "met") return parts.slice(1).filter((each) => met(each, at)).length >= parts[0];
    return COMPARE[sign](value(parts[0], at), value(parts[1], at));
  }
  const judge = (rule, at) => (met(rule.undecided, at) ? UNDECIDED : met(rule.holds, at) ? HOLDS : met(rule.part, at) ? PART : FAILS);

  // What was measured, wherever a rule compares it with this bar.
  function measured(node, name, at) {
    if (!Array.isArray(node)) return [];
    if (node[0] === "met") return node.slice(2).flatMap((each) => measured(each, name, at));
    return node[2] === name ? [value(node[1], at)] : [];
  }

  function start(root) {
    const { rules, verdicts } = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    const tools = root.querySelector(".rbp-ledger-tools"), status = root.querySelector(".rbp-ledger-count");
    const filters = ["group", "weight", "verdict", "text"].map((name) => [name, tools.querySelector(`#rbp-ledger-${name}`)]);
    const rows = [...root.querySelectorAll(".rbp-claim")].map((row) => {
      const { number } = row.dataset;
      return { row, number, rule: rules[number], set: row.dataset.verdict, verdict: row.dataset.verdict, group: row.closest("section").id.replace("claims-", ""),
        text: row.textContent.toLowerCase(), sliders: [...row.querySelectorAll("[data-bar]")] };
    });
    // A bar "7.holds" is that of claim 7, on which a claim rests.
    const sliderOf = (number, name) => document.getElementById(`rbp-bar-${name.includes(".") ? name.replace(".", "-") : `${number}-${name}`}`);
    const bars = ({ number, rule }) => Object.fromEntries(Object.keys(rule.bars).map((name) => [name, Number(sliderOf(number, name).value)]));
    const inWords = (number, { percent }) => (percent ? `${Number((100 * number).toFixed(1))}%` : String(Number(number.toPrecision(4))));
    function badge(verdict) {
      const [key, sign] = verdicts[verdict], label = document.createElement("span"), mark = document.createElement("span");
      label.className = `rbp-verdict rbp-${key}`;
      mark.setAttribute("aria-hidden", "true");
      mark.textContent = sign;
      label.append(mark, ` ${verdict}`);
      return label;
    }

    function decide(each) {
      const at = bars(each), moved = Object.keys(at).some((name) => at[name] !== each.rule.bars[name].at);
      each.verdict = moved ? judge(each.rule, at) : each.set;
      each.row.classList.toggle("rbp-moved", each.verdict !== each.set);
      each.row.querySelector(".rbp-verdict").replaceWith(badge(each.verdict));
      if (each.sliders.length) each.row.querySelector("[data-reset]").disabled = !moved;
      for (const slider of each.sliders) {
        const name = slider.dataset.bar, bar = each.rule.bars[name];
        const values = [...new Set([...measured(each.rule.holds, name, at), ...measured(each.rule.part, name, at)])].map((number) => inWords(number, bar));
        const reading = inWords(at[name], bar) + (values.length ? `, found: ${values.join(" and ")}` : "");
        slider.setAttribute("aria-valuetext", reading);
        slider.labels[0].querySelector("b").textContent = reading;
      }
    }

    function show() {
      const chosen = Object.fromEntries(filters.map(([name, control]) => [name, control.value]));
      const words = chosen.text.toLowerCase().split(/\s+/).filter(Boolean);
      for (const each of rows) {
        each.row.hidden = (chosen.group && chosen.group !== each.group) || (chosen.weight && chosen.weight !== each.row.dataset.weight)
          || (chosen.verdict && chosen.verdict !== each.verdict) || !words.every((word) => each.text.includes(word));
      }
      for (const part of root.querySelectorAll(".rbp-ledger-part")) part.hidden = !part.querySelector(".rbp-claim:not([hidden])");
      for (const section of root.querySelectorAll("section")) {
        section.hidden = !section.querySelector(".rbp-ledger-part:not([hidden])");
        const entries = rows.filter(({ row }) => section.contains(row));
        section.querySelector(".rbp-counts").replaceChildren(...Object.keys(verdicts).flatMap((verdict) => {
          const count = entries.filter((each) => each.verdict === verdict).length, item = document.createElement("li"), number = document.createElement("b");
          number.textContent = count;
          item.append(badge(verdict), " ", number);
          return count ? [item] : [];
        }));
      }
      const changed = rows.filter((each) => each.verdict !== each.set).length, seen = rows.filter(({ row }) => !row.hidden);
      const parts = Object.keys(verdicts).map((verdict) => [verdict, seen.filter((each) => each.verdict === verdict).length]).filter(([, count]) => count);
      status.textContent = `Showing ${seen.length} of ${rows.length}${parts.map(([verdict, count], i) => `${i ? "," : ":"} ${verdict} ${count}`).join("")}`
        + (changed ? `. ${changed} ${changed === 1 ? "verdict" : "verdicts"} changed` : "");
    }

    // ── The state in the address

    const PREFIX = "#ledger?";
    function address() {
      const parts = new URLSearchParams(filters.filter(([, control]) => control.value).map(([name, control]) => [name, control.value]));
      for (const { number, sliders, rule } of rows) {
        for (const slider of sliders) if (Number(slider.value) !== rule.bars[slider.dataset.bar].at) parts.set(`${number}.${slider.dataset.bar}`, slider.value);
      }
      return `${PREFIX}${parts}`;
    }
    function restore() {
      const target = document.getElementById(location.hash.slice(1))?.closest(".rbp-claim");
      if (target) {
        if (target.hidden) for (const [, control] of filters) control.value = "";
        target.open = true;
      } else if (location.hash.startsWith(PREFIX)) {
        const parts = new URLSearchParams(location.hash.slice(PREFIX.length));
        for (const [name, control] of filters) {
          control.value = parts.get(name) ?? "";
          if (control.selectedIndex === -1) control.value = ""; // no such choice
        }
        for (const { number, sliders, rule } of rows) {
          for (const slider of sliders) {
            const given = parts.get(`${number}.${slider.dataset.bar}`);
            slider.value = given === null || !Number.isFinite(Number(given)) ? rule.bars[slider.dataset.bar].at : given;
          }
        }
        rows.filter(({ rule }) => rule).forEach(decide);
      }
      show();
      if (target) target.scrollIntoView();
    }
    let writing = 0;
    function update(...changed) {
      [...changed, ...resting].forEach(decide);
      show();
      clearTimeout(writing); // browsers stop an address that changes too often
      writing = setTimeout(() => {
        try { history.replaceState(null, "", address()); } catch { /* a page in a sandbox keeps its address */ }
      }, 200);
    }

    for (const [, control] of filters) control.addEventListener("input", () => update());
    const put = (each, where) => { for (const slider of each.sliders) slider.value = each.rule.bars[slider.dataset.bar][where]; };
    const movable = rows.filter(({ sliders }) => sliders.length), resting = rows.filter(({ rule, sliders }) => rule && !sliders.length);
    for (const each of movable) {
      each.row.querySelector(".rbp-bars").hidden = false;
      for (const slider of each.sliders) slider.addEventListener("input", () => update(each));
      each.row.querySelector("[data-reset]").addEventListener("click", () => { put(each, "at"); update(each); });
    }
    for (const button of tools.querySelectorAll("[data-all]")) {
      button.addEventListener("click", () => { movable.forEach((each) => put(each, button.dataset.all)); update(...movable); });
    }
    tools.hidden = false;
    status.hidden = false;
    movable.forEach(decide);
    restore();
    addEventListener("hashchange", restore);
  }

  const begin = () => document.querySelectorAll(".rbp-ledger").forEach(start);
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", begin);
  else begin();
  return { judge };
})();
