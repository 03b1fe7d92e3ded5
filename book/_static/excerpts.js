/* What search shows of a page: its sentences. What holds none, the book's index of words leaves out too. */
document.addEventListener("DOMContentLoaded", () => { // Sphinx's own script stands further down, and begins then too
  const wholeText = Search.htmlToText;
  Search.htmlToText = (text, anchor) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const noSentences = "details.above-input, .cell_input, svg, math, .rbp-table, .rbp-downloads, .rbp-rerun, button, select";
    page.querySelectorAll(noSentences).forEach((each) => each.remove());
    return wholeText(page.documentElement.outerHTML, anchor);
  };
});
