// The script of all pages: names for buttons that are icons, and room for wide tables.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("button.copybtn")) button.setAttribute("aria-label", "Copy the code");
});

// A table that reaches into the margin hides the page's contents while it is in sight: the theme's own class does so.
for (const table of document.querySelectorAll(".bd-article .rbp-tabled")) {
  const scroll = table.querySelector(".rbp-scroll");
  if (scroll && scroll.getBoundingClientRect().right > table.getBoundingClientRect().right + 1) table.classList.add("full-width");
}
