"use strict";
(() => {
  // The page is whole without this: it adds a dark mode by hand, sorting, copying, and opens what is printed.
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const label = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-pressed", String(isDark()));
    theme.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
  };
  theme.hidden = false;
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); });
  dark.addEventListener("change", label);
  label();

  for (const block of document.querySelectorAll(".code")) {
    const button = document.createElement("button");
    const text = block.querySelector("pre");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(text);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    block.prepend(button);
  }

  const value = (row, column) => {
    const cell = row.cells[column];
    if (!("value" in cell.dataset)) return cell.textContent.trim();
    return cell.dataset.value === "" ? -Infinity : Number(cell.dataset.value);
  };
  const order = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a < b ? -1 : a > b ? 1 : 0);
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if ("plain" in head.dataset) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => (down ? -1 : 1) * order(value(a, column), value(b, column)));
        table.tBodies[0].append(...rows);
      });
    });
  }

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => { opened.forEach((part) => { part.open = false; }); });
})();
