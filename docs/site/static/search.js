// What Sphinx's search lacks: the page that has the words most often comes first, and below each
// page stand the sections that have them, with the text around. That text is in book_sections.js,
// because a page opened from a file may not read another.
const kSections = 3; // at most, below a page
const kAround = 70;  // letters of text before and after a word

const wordsOfQuery = splitQuery((new URLSearchParams(location.search).get("q") || "").toLowerCase())
    .map((word) => word.replace(/s$/, ""));

// How often the text has the words, or longer ones that begin with them; 0 where it lacks one.
function occurrences(text) {
  const counts = wordsOfQuery.map((word) => text.split(new RegExp(`\\b${word}`, "i")).length - 1);
  return Math.min(...counts) > 0 ? counts.reduce((a, b) => a + b, 0) : 0;
}

// The sections of a page that have all words, those with the most first.
function sectionsFound(page) {
  return (bookSections[page] || [])
      .map(([anchor, title, text]) =>
          ({anchor, title, text, count: occurrences(`${title} ${text}`)}))
      .filter((section) => section.count > 0)
      .sort((a, b) => b.count - a.count);
}

// Text around the first place where the words stand together, or else around the first word.
function excerpt(text) {
  const places = [wordsOfQuery.join("\\w*\\W+"), ...wordsOfQuery]
      .map((words) => text.search(new RegExp(`\\b${words}`, "i")));
  const place = places.find((at) => at >= 0) ?? 0;
  const from = place > kAround ? text.indexOf(" ", place - kAround) + 1 : 0;
  const end = place + 2 * kAround;
  const to = end < text.length ? text.lastIndexOf(" ", end) : text.length;
  return (from ? "… " : "") + text.slice(from, to) + (to < text.length ? " …" : "");
}

function showSections(result) {
  const link = result.querySelector("a");
  const page = link.getAttribute("href").split(/[?#]/)[0].replace(/\.html$/, "");
  const list = result.appendChild(document.createElement("ul"));
  if (link.hash) return; // This result is a section.
  for (const section of sectionsFound(page).slice(0, kSections)) {
    const item = list.appendChild(document.createElement("li"));
    const title = item.appendChild(document.createElement("a"));
    title.href = `${page}.html#${section.anchor}`;
    title.textContent = section.title;
    item.appendChild(document.createElement("p")).textContent = excerpt(section.text);
  }
}

if (wordsOfQuery.length) {
  Scorer.score = ([page, , anchor, , score]) =>
      score + (anchor ? 0 : sectionsFound(page).reduce((sum, section) => sum + section.count, 0));
  document.addEventListener("DOMContentLoaded", () => {
    const results = document.getElementById("search-results");
    new MutationObserver(() => {
      results.querySelectorAll("ul.search > li:not(:has(ul))").forEach(showSections);
    }).observe(results, {childList: true, subtree: true});
  });
}
