// Draws the formulas of a page with KaTeX. One that KaTeX does not understand stays as it is.
document.addEventListener("DOMContentLoaded", () => {
  for (const formula of document.querySelectorAll(".formula")) {
    try {
      katex.render(formula.textContent, formula, {displayMode: formula.tagName === "DIV"});
    } catch (error) {
      console.error(error.message);
    }
  }
});
