/* What search shows of a page: its sentences, without the code of cells, labels of figures and downloads. */
const wholeText = Search.htmlToText;
Search.htmlToText = (text, anchor) => {
  const page = new DOMParser().parseFromString(text, "text/html");
  page.querySelectorAll(".cell_input, .rbp-rerun, .rbp-downloads, svg, mjx-container").forEach((each) => each.remove());
  return wholeText(page.documentElement.outerHTML, anchor);
};
