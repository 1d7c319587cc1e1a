// What every page does once it is loaded.

// Draws the formulas of an element with KaTeX. One that KaTeX does not understand stays as it is.
function drawFormulas(element) {
  for (const formula of element.querySelectorAll(".formula")) {
    try {
      katex.render(formula.textContent, formula, {displayMode: formula.tagName === "DIV"});
    } catch (error) {
      console.error(error.message);
    }
  }
}

// A box that scrolls can be reached with the keyboard, so that the arrow keys move it.
function focusScrollers() {
  for (const box of document.querySelectorAll("article :is(pre, .table-wrapper, .formula)")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

// The players follow the theme that the reader chose: each is told when it is loaded, and again
// when the choice changes.
function tellTheme(player) {
  player.contentWindow.postMessage({theme: document.body.dataset.theme}, "*");
}

// A player takes the place of its poster, which is a link to the player's page. A phone follows the link.
function play(event) {
  const poster = event.currentTarget;
  if (event.ctrlKey || event.metaKey || event.shiftKey || matchMedia("(max-width: 46em)").matches) return;
  event.preventDefault();
  const player = document.createElement("iframe");
  player.className = "player";
  player.src = poster.href;
  player.title = poster.title;
  player.onload = () => tellTheme(player);
  poster.replaceWith(player);
  player.scrollIntoView({block: "nearest"});
  player.focus();
}

// Shows what the glossary says about a link's term beside the link, as long as the pointer or the
// focus is there.
function showCard(link) {
  const definition = glossary[link.hash.slice(1)];
  if (!definition) return;
  const card = document.body.appendChild(document.createElement("div"));
  card.id = "card";
  card.setAttribute("role", "tooltip");
  card.innerHTML = definition;
  drawFormulas(card);
  link.setAttribute("aria-describedby", card.id);
  const at = link.getClientRects()[0];
  const below = at.bottom + card.offsetHeight + 8 < innerHeight;
  card.style.top = `${scrollY + (below ? at.bottom + 4 : at.top - card.offsetHeight - 4)}px`;
  card.style.left = `${Math.max(8, Math.min(at.left, document.body.clientWidth - card.offsetWidth - 8))}px`;
}

function hideCard() {
  document.getElementById("card")?.remove();
}

document.addEventListener("DOMContentLoaded", () => {
  drawFormulas(document);
  for (const event of ["load", "resize"]) addEventListener(event, focusScrollers);
  new MutationObserver(() => document.querySelectorAll("iframe.player").forEach(tellTheme))
      .observe(document.body, {attributeFilter: ["data-theme"]});
  document.querySelectorAll("a.poster").forEach(poster => poster.addEventListener("click", play));

  for (const link of document.querySelectorAll("article a[href*='glossary.html#']")) {
    for (const begin of ["pointerenter", "focus"]) link.addEventListener(begin, () => showCard(link));
    for (const end of ["pointerleave", "blur"]) link.addEventListener(end, hideCard);
  }
  document.addEventListener("keydown", event => event.key === "Escape" && hideCard());
});
