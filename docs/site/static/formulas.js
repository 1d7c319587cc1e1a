// Draws the formulas of a page with KaTeX.
document.addEventListener("DOMContentLoaded", () => {
  for (const formula of document.querySelectorAll(".formula")) {
    katex.render(formula.textContent, formula, {displayMode: formula.tagName === "DIV", throwOnError: false});
  }
});
