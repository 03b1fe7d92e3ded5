/* What search shows of a page: its sentences, without the code of cells, labels of figures and downloads. */
document.addEventListener("DOMContentLoaded", () => { // Sphinx's own script stands further down, and begins then too
  const wholeText = Search.htmlToText;
  Search.htmlToText = (text, anchor) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const plumbing = ".cell_input, .rbp-rerun, .rbp-downloads, svg, mjx-container";
    page.querySelectorAll(plumbing).forEach((each) => each.remove());
    return wholeText(page.documentElement.outerHTML, anchor);
  };
});
