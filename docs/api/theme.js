// The colours that the button chooses, on the book's pages and here: light, dark or the system's.
const dark = matchMedia("(prefers-color-scheme: dark)");

// A browser may keep nothing for pages opened from files.
function keptTheme() {
  try {
    return localStorage.getItem("theme") || "auto";
  } catch {
    return "auto";
  }
}

function showTheme(theme = keptTheme()) {
  const isDark = theme === "auto" ? dark.matches : theme === "dark";
  document.documentElement.classList.toggle("dark-mode", isDark);
  document.documentElement.classList.toggle("light-mode", !isDark);
}

// The order of the book's button.
function nextTheme() {
  const order = dark.matches ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
  const theme = order[(order.indexOf(keptTheme()) + 1) % 3];
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // It lasts as long as the page.
  }
  showTheme(theme);
}

// What Doxygen's markup does not say to a screen reader.
addEventListener("DOMContentLoaded", () => {
  document.querySelector("#doc-content").role = "main";
  const title = document.querySelector(".title");
  title.role = "heading";
  title.ariaLevel = 1;
  for (const icon of document.querySelectorAll("a > .icondoc")) icon.parentElement.ariaLabel = "Source";
});

showTheme();
dark.addEventListener("change", () => showTheme());
addEventListener("storage", () => showTheme());
