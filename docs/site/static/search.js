// Searches the text of all sections, which is in book_sections.js, because a page opened from a file
// may not read another. The page that has the words most often comes first, one with the words in its
// title before all others, and exercises and notebooks count less. Below each page stand the sections
// that have the words, with the text around.
const kSections = 3; // at most, below a page
const kAround = 70;  // letters of text before and after a word
const kTitle = 50;   // what a word in a page's title counts for
const kBeside = /\/exercises\/|NOTEBOOK|^api\//;  // pages whose words count a quarter

// What readers call what the book calls something else.
const kSynonyms = {
  fa2: "flashattention-2", fa3: "flashattention-3", fa4: "flashattention-4", gqa: "grouped",
  regression: "slower",
};

const everyText = Object.values(bookSections)
    .map(sections => sections.map(([, title, text]) => `${title} ${text}`).join(" "));

// The pattern of a word, its plural, longer words that begin with it, and its synonym.
function pattern(word) {
  const words = [word.replace(/s$/, ""), kSynonyms[word]].filter(Boolean);
  return `(?<!\\w)(?:${words.map(w => w.replace(/[^\w\s]/g, "\\$&")).join("|")})`;
}

// How many letters must be inserted, dropped or exchanged to turn one word into another.
function distance(a, b) {
  const rows = [[...Array(b.length + 1).keys()]];
  for (let i = 1; i <= a.length; ++i) {
    rows[i] = [i];
    for (let j = 1; j <= b.length; ++j) {
      rows[i][j] = Math.min(rows[i - 1][j] + 1, rows[i][j - 1] + 1,
                            rows[i - 1][j - 1] + (a[i - 1] !== b[j - 1]));
    }
  }
  return rows[a.length][b.length];
}

// The word itself if the book has it, or else the word of the book that is most like it.
function known(word) {
  const wanted = RegExp(pattern(word), "i");
  if (everyText.some(text => wanted.test(text))) return word;
  const near = new Map();
  for (const other of everyText.join(" ").toLowerCase().match(/[a-z]\w{3,}/g)) {
    if (Math.abs(other.length - word.length) <= 1 && !near.has(other)) near.set(other, distance(word, other));
  }
  const [best, least] = [...near].reduce((a, b) => (b[1] < a[1] ? b : a), ["", 9]);
  return least <= (word.length < 7 ? 1 : 2) ? best : word;
}

const query = new URLSearchParams(location.search).get("q") || "";
const wordsOfQuery = query.toLowerCase().split(/\s+/).filter(Boolean).map(known);
const patterns = wordsOfQuery.map(pattern);

// How often the text has the words; 0 where it lacks one.
function occurrences(text) {
  const counts = patterns.map(word => text.split(RegExp(word, "i")).length - 1);
  return Math.min(...counts) > 0 ? counts.reduce((a, b) => a + b, 0) : 0;
}

// Text around the first place where the words stand together, or else around the first word.
function excerpt(text) {
  const places = [patterns.join("\\w*\\W+"), ...patterns].map(words => text.search(RegExp(words, "i")));
  const place = places.find(at => at >= 0) ?? 0;
  const from = place > kAround ? text.indexOf(" ", place - kAround) + 1 : 0;
  const end = place + 2 * kAround;
  const to = end < text.length ? text.lastIndexOf(" ", end) : text.length;
  return (from ? "… " : "") + text.slice(from, to) + (to < text.length ? " …" : "");
}

// The pages that have all words, the best first, each with its best sections.
function pagesFound() {
  return Object.entries(bookSections).map(([page, sections]) => {
    const found = sections
        .map(([anchor, title, text]) => ({anchor, title, text, count: occurrences(`${title} ${text}`)}))
        .filter(section => section.count > 0).sort((a, b) => b.count - a.count);
    const title = sections[0][1];
    const whole = occurrences(sections.map(([, name, text]) => `${name} ${text}`).join(" "));
    const count = whole && whole + kTitle * occurrences(title);
    return {page, title, found, count: kBeside.test(page) ? count / 4 : count};
  }).filter(({count}) => count > 0).sort((a, b) => b.count - a.count);
}

function element(tag, parent, text, href) {
  const made = parent.appendChild(document.createElement(tag));
  made.textContent = text;
  if (href) made.href = href;
  return made;
}

document.addEventListener("DOMContentLoaded", () => {
  const results = document.getElementById("search-results");
  document.querySelector("article input[name=q]").value = query;
  if (!wordsOfQuery.length) return;
  const pages = pagesFound(), words = wordsOfQuery.join(" ");
  const instead = words === query.trim().toLowerCase() ? "" : `, for “${words}”`;
  element("p", results,
          pages.length ? `${pages.length} pages${instead}.` : `Nothing matches “${query}”.`);
  const list = element("ul", results, "");
  for (const {page, title, found} of pages) {
    const item = element("li", list, "");
    element("a", item, title, `${page}.html`);
    const below = element("ul", item, "");
    for (const section of found.slice(0, kSections)) {
      const line = element("li", below, "");
      element("a", line, section.title, `${page}.html#${section.anchor}`);
      element("p", line, excerpt(section.text));
    }
  }
});
