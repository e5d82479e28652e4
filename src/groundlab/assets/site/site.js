// Of every page: what is wider than the page scrolls by keyboard, too; search summaries are fetched only from a server.
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll(".table-wrapper, .output, pre")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", box.tagName === "PRE" ? "code" : "table");
    }
  }
});
