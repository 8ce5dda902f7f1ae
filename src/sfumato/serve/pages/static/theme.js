"use strict";
// Before anything is drawn: the colours that were chosen by hand, on an earlier page.
try {
  const chosen = localStorage.getItem("sfumato-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* a browser that keeps nothing follows the system's colours */ }
