// The claims ledger: filters, which the page's address keeps.
"use strict";

(() => {
  const PREFIX = "#ledger?";

  function start(root) {
    const tools = root.querySelector(".rbp-ledger-tools"), status = root.querySelector(".rbp-ledger-count");
    const filters = ["group", "weight", "verdict", "text"].map((name) => [name, tools.querySelector(`#rbp-ledger-${name}`)]);
    const rows = [...root.querySelectorAll(".rbp-claim")].map((row) => ({
      row, ...row.dataset, group: row.closest("section").id.replace("claims-", ""), words: row.textContent.toLowerCase(),
    }));

    function show() {
      const { text, ...chosen } = Object.fromEntries(filters.map(([name, control]) => [name, control.value]));
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      for (const each of rows) {
        const fits = Object.entries(chosen).every(([name, value]) => !value || each[name] === value);
        each.row.hidden = !fits || !words.every((word) => each.words.includes(word));
      }
      for (const part of root.querySelectorAll(".rbp-ledger-part")) part.hidden = !part.querySelector(".rbp-claim:not([hidden])");
      for (const section of root.querySelectorAll("section")) section.hidden = !section.querySelector(".rbp-ledger-part:not([hidden])");
      const counts = new Map();
      for (const { row, verdict } of rows) if (!row.hidden) counts.set(verdict, (counts.get(verdict) ?? 0) + 1);
      const parts = [...counts].map(([verdict, count]) => `${verdict} ${count}`);
      status.textContent = `Showing ${rows.filter(({ row }) => !row.hidden).length} of ${rows.length}${parts.length ? `: ${parts.join(", ")}` : ""}`;
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
      }
      show();
      if (target) target.scrollIntoView();
    }
    let writing = 0;
    function update() {
      show();
      clearTimeout(writing); // browsers stop an address that changes too often
      writing = setTimeout(() => {
        const parts = new URLSearchParams(filters.filter(([, control]) => control.value).map(([name, control]) => [name, control.value]));
        try { history.replaceState(null, "", `${PREFIX}${parts}`); } catch { /* a page in a sandbox keeps its address */ }
      }, 200);
    }

    for (const [, control] of filters) control.addEventListener("input", update);
    tools.querySelector(".rbp-ledger-clear").addEventListener("click", () => {
      for (const [, control] of filters) control.value = "";
      update();
    });
    tools.hidden = false;
    status.hidden = false;
    restore();
    addEventListener("hashchange", restore);
  }

  const begin = () => document.querySelectorAll(".rbp-ledger").forEach(start);
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", begin);
  else begin();
})();
