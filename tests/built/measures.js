// What measures.py reads off a page: how long and how wide it is, how long its sentences are, and what is too faint to read.
"use strict";

// The texts that a reader has in sight, with the elements that they are in.
const visibleTexts = unread => {
  const walker = document.createTreeWalker(document.querySelector('article'), NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    const { parentElement: parent, data } = walker.currentNode;
    if (!parent.closest(unread) && parent.checkVisibility()) texts.push([parent, data]);
  }
  return texts;
};
const UNREAD = 'table, svg, pre, script, style, math, .rbp-downloads, .headerlink';
const countWords = text => (text.match(/\S*\p{L}\S*/gu) ?? []).length;

// Sentences of paragraphs, items of lists and captions, each with its number of words. One ends at a full stop (not of
// "et al."), question or exclamation mark, and what closes after it, before white space and code, or no small letter.
const CODE = '\u200b';
const sentences = () => {
  const blocks = new Map();
  for (const [parent, data] of visibleTexts(`${UNREAD}, .citation`)) {
    const block = parent.closest('p, li, figcaption, dd');
    if (block) blocks.set(block, (blocks.get(block) ?? '') + (parent.closest('code') ? CODE : '') + data);
  }
  return [...blocks.values()].flatMap(text => text.trim().split(/(?<=[.?!][”’)\]]*)(?<!\bal\.)\s+(?=\P{Ll})/u))
    .map(text => text.replaceAll(CODE, '').replace(/\s+/g, ' ')).filter(text => /\p{L}/u.test(text)).map(text => [text, countWords(text)]);
};

const length = () => {
  const figures = [...document.querySelectorAll('article figure.rbp-figure:not(.rbp-tabled), article .rbp-sentence, article .rbp-ledger')];
  const top = Math.min(...figures.filter(each => each.checkVisibility()).map(each => each.getBoundingClientRect().top + scrollY));
  const words = visibleTexts(UNREAD).reduce((sum, [, data]) => sum + countWords(data), 0);
  const inner = [...document.querySelectorAll('article .rbp-scroll, article .pst-scrollable-table-container, article div.math')];
  return {
    height: document.documentElement.scrollHeight, words, figure: Number.isFinite(top) ? Math.round(top) : null,
    scrolled: inner.filter(each => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1).length,
    behind: inner.filter(each => {
      const second = each.querySelector('th:nth-child(2)');
      return second?.checkVisibility() && second.getBoundingClientRect().right > each.getBoundingClientRect().right + 1;
    }).length,
    wide: Math.max(document.documentElement.scrollWidth, ...[...document.querySelectorAll('article :not(svg *, math *, pre *, .rbp-table *, .rbp-says *)')].map(each => {
      if (each.closest('.rbp-scroll, .pst-scrollable-table-container, div.math') || !each.checkVisibility()) return 0;
      const box = each.getBoundingClientRect();
      return box.width > 1 && !each.closest('.rbp-unseen, legend, input') ? Math.floor(box.right + scrollX) : 0;
    })) - innerWidth,
  };
};

// WCAG 2's contrast of what is drawn: text with what is behind it, lines and marks of figures with the page.
const faint = () => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const seen = new Map();
  const rgba = colour => {
    if (!seen.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      seen.set(colour, [r, g, b, a / 255]);
    }
    return seen.get(colour);
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (one, other) => { const [dim, bright] = [light(one), light(other)].sort((a, b) => a - b); return (bright + 0.05) / (dim + 0.05); };
  const grounds = new Map([[null, [255, 255, 255, 1]]]), opacities = new Map([[null, 1]]);
  const once = (known, each, make) => { if (!known.has(each)) known.set(each, make()); return known.get(each); };
  const behind = each => once(grounds, each, () => over(rgba(getComputedStyle(each).backgroundColor), behind(each.parentElement)));
  const opacity = each => once(opacities, each, () => opacity(each.parentElement) * getComputedStyle(each).opacity);
  const low = (colour, alpha, ground, least) => {
    const [r, g, b, a] = rgba(colour);
    return ratio(over([r, g, b, a * alpha], ground), ground) < least;
  };
  const texts = new Set(), marks = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { parentElement: each, data } = walker.currentNode, style = getComputedStyle(each);
    if (!data.trim() || !each.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (each.closest('script, style, option, [disabled], .headerlink, pre, .rbp-unseen')) continue; // code has the theme's colours
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const colour = each.closest('svg') ? style.fill : style.color;
    if (low(colour, opacity(each), behind(each), large ? 3 : 4.5)) texts.add(`${colour} ${data.trim().slice(0, 30)}`);
  }
  for (const figure of document.querySelectorAll('article figure svg[role=img]')) {
    const ground = behind(figure.parentElement);
    const drawn = new Map();  // by what says how they look, for there are thousands
    for (const each of figure.querySelectorAll('path, use, circle, rect, line')) {
      if (!each.closest('defs, clipPath')) drawn.set(`${each.getAttribute('style')} ${each.parentElement.getAttribute('style')}`, each);
    }
    for (const [how, each] of drawn) {
      if (how.includes('--rbp-grid')) continue;
      const style = getComputedStyle(each), all = opacity(each);
      const strong = ['fill', 'stroke'].filter(kind => style[kind] !== 'none').map(kind => [kind, all * style[`${kind}Opacity`]])
        .filter(([kind, alpha]) => alpha * rgba(style[kind])[3] >= 0.5);  // what is fainter is a band behind the marks
      if (strong.length && strong.every(([kind, alpha]) => low(style[kind], alpha, ground, 3))) {
        marks.add(strong.map(([kind]) => style[kind]).join(' '));
      }
    }
  }
  return [...texts, ...marks];
};
