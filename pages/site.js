// A table that is wider than the screen is scrolled with the keyboard too.
document.addEventListener("DOMContentLoaded", () => setTimeout(() => {
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap")) wide.tabIndex = 0;
}));
