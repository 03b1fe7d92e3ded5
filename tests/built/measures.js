// What measures.py reads off a page: how long and how wide it is; faint.js has what is too faint to read.
"use strict";

const length = () => {
  const figures = [...document.querySelectorAll('article figure.rbp-figure:not(.rbp-tabled), article .rbp-sentence, article .rbp-ledger')];
  const top = Math.min(...figures.filter(each => each.checkVisibility()).map(each => each.getBoundingClientRect().top + scrollY));
  const walker = document.createTreeWalker(document.querySelector('article'), NodeFilter.SHOW_TEXT);
  let words = 0;
  while (walker.nextNode()) {
    const { parentElement: parent, data } = walker.currentNode;
    if (!parent.closest('table, svg, pre, script, style, math, .rbp-downloads, .headerlink') && parent.checkVisibility()) {
      words += (data.match(/\S*\p{L}\S*/gu) ?? []).length;
    }
  }
  const inner = [...document.querySelectorAll('article .rbp-scroll, article .pst-scrollable-table-container, article div.math')];
  return {
    height: document.documentElement.scrollHeight, words, figure: Number.isFinite(top) ? Math.round(top) : null,
    scrolled: inner.filter(each => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1).length,
    wide: Math.max(document.documentElement.scrollWidth, ...[...document.querySelectorAll('article :not(svg *, math *, pre *, .rbp-table *, .rbp-says *)')].map(each => {
      if (each.closest('.rbp-scroll, .pst-scrollable-table-container, div.math') || !each.checkVisibility()) return 0;
      const box = each.getBoundingClientRect();
      return box.width > 1 && !each.closest('.rbp-unseen, legend, input') ? Math.floor(box.right + scrollX) : 0;
    })) - innerWidth,
  };
};
