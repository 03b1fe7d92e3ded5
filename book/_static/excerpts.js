/* Search shows the sentences that the build has written (sentences.js), and chapters before the reference. */
document.addEventListener("DOMContentLoaded", () => { // Sphinx's own script stands further down, and begins then too
  const root = document.documentElement.dataset.content_root;
  Scorer.score = ([page, , , , score]) => score + (page.startsWith("notebooks/") ? 20 : /^book\/(api|commands)$/.test(page) ? -20 : 0);
  window.fetch = async (page) => ({ text: async () => SENTENCES[page.slice(root.length).replace(/\.html$/, "")] ?? "" });
  Search.htmlToText = (text) => text;
});
