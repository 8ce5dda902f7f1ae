"use strict";
(() => {
  // Every page works without this. It spares loading: plans, checks and sliders answer in place.
  const root = document.documentElement;
  root.classList.add("scripted");
  document.getElementById("theme").addEventListener("click", () => {
    try { localStorage.setItem("sfumato-theme", root.dataset.theme); } catch { /* chosen for this page only */ }
  });

  const sentence = (text) => {
    const said = document.createElement("p");
    said.className = "banner alarm";
    said.setAttribute("role", "alert");
    said.textContent = text;
    return said;
  };
  // The changing part of a page: made and escaped by the server, like the page itself.
  const fetched = async (address, options = {}) => {
    const answer = await fetch(address, {
      ...options, credentials: "same-origin", headers: { "Sfumato-Fragment": "1" },
    });
    const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
    return [...parsed.body.childNodes];
  };
  const fill = async (place, address, options) => {
    place.classList.add("busy");
    place.setAttribute("aria-busy", "true");
    try {
      const nodes = await fetched(address, options);
      place.replaceChildren(...nodes);
      wake(place);
      // Read out in short; all of it is there to be gone through.
      const said = place.querySelector("[data-said]");
      if (said) document.getElementById("status").textContent = said.textContent.trim();
      return true;
    } catch (error) {
      if (error.name === "AbortError") return false;
      place.replaceChildren(sentence("The service did not answer; try again in a moment."));
      return false;
    } finally {
      place.classList.remove("busy");
      place.removeAttribute("aria-busy");
    }
  };

  const wake = (within) => {
    for (const place of within.querySelectorAll("[data-load]")) {
      const link = place.querySelector("a");
      const look = async () => {
        const part = document.createElement("div");
        if (await fill(part, link.href)) place.replaceChildren(part);
      };
      if ("IntersectionObserver" in window) {
        const watch = new IntersectionObserver((seen) => {
          if (seen.some((one) => one.isIntersecting)) { watch.disconnect(); look(); }
        });
        watch.observe(place);
      }
    }
  };

  for (const form of document.querySelectorAll("form[data-live]")) {
    const place = document.querySelector(form.dataset.live);
    form.addEventListener("submit", async (event) => {
      if (event.submitter && "whole" in event.submitter.dataset) {
        // A second press would ask for the same release again: harmless, but of no use.
        setTimeout(() => { event.submitter.disabled = true; });
        return;
      }
      event.preventDefault();
      const button = event.submitter ?? form.querySelector("button[type=submit]");
      button.setAttribute("aria-busy", "true");
      await fill(place, form.action, { method: "POST", body: new FormData(form) });
      button.removeAttribute("aria-busy");
      place.scrollIntoView({ block: "nearest" });
    });
    // A plan holds for what it was made of; whoever changes that asks for another.
    form.addEventListener("input", () => {
      place.replaceChildren();
      document.getElementById("status").textContent = "";
    });
  }

  for (const chooser of document.querySelectorAll("[data-chooses]")) {
    // What some mechanism takes; all else of the form is for every one of them.
    const names = new Set([...chooser.options].flatMap((one) => one.dataset.fields?.split(" ") ?? []));
    const known = [...names].map((name) => [name, chooser.form.elements[name]]);
    const choose = () => {
      const taken = chooser.selectedOptions[0].dataset.fields?.split(" ");
      for (const [name, control] of known) {
        const common = !["distrust", "epsilon_max"].includes(name) && !name.startsWith("parameter-");
        const shown = taken ? taken.includes(name) : common;
        control.closest(".field").hidden = !shown;
        control.disabled = !shown;
      }
    };
    chooser.addEventListener("change", choose);
    choose();
  }

  for (const role of document.querySelectorAll("input[name=role]")) {
    const limit = () => {
      if (!role.checked) return;
      for (const scope of role.form.querySelectorAll("[data-roles]")) {
        scope.disabled = !scope.dataset.roles.split(" ").includes(role.value);
        if (scope.disabled) scope.checked = false;
      }
    };
    role.addEventListener("change", limit);
    limit();
  }

  for (const form of document.querySelectorAll("form[data-drop]")) {
    form.querySelector(".drop").hidden = false;
    const inputs = { file: form.elements.file, certificate: form.elements.certificate };
    const put = (input, file) => {
      const list = new DataTransfer();
      list.items.add(file);
      input.files = list.files;
    };
    for (const kind of ["dragenter", "dragover"]) form.addEventListener(kind, (event) => {
      event.preventDefault();
      form.classList.add("over");
    });
    for (const kind of ["dragleave", "drop"]) form.addEventListener(kind, () => form.classList.remove("over"));
    form.addEventListener("drop", (event) => {
      event.preventDefault();
      for (const file of event.dataTransfer.files)
        put(file.name.endsWith(".cert.json") ? inputs.certificate : inputs.file, file);
      if (inputs.file.files.length && inputs.certificate.files.length) form.requestSubmit();
    });
  }

  for (const form of document.querySelectorAll("form[data-slides]")) {
    const place = document.querySelector(form.dataset.slides);
    let waiting, under;
    const tell = () => {
      for (const slider of form.querySelectorAll("input[type=range]")) {
        const text = `${slider.dataset.sign}\u00a0=\u00a0${Number(slider.dataset.values.split(" ")[slider.value])}`;
        slider.setAttribute("aria-valuetext", text);
        slider.parentElement.querySelector("output").textContent = text;
      }
    };
    const show = () => {
      under?.abort();
      under = new AbortController();
      const query = new URLSearchParams(new FormData(form));
      const address = `${form.action}?${query}`;
      history.replaceState(null, "", address);
      fill(place, address, { signal: under.signal });
    };
    form.addEventListener("input", () => {
      tell();
      clearTimeout(waiting);
      waiting = setTimeout(show, 120);
    });
    form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
  }

  for (const place of document.querySelectorAll("[data-poll]")) {
    const again = async () => {
      // Not under somebody's hands, and not where nobody looks.
      const busy = document.hidden || place.contains(document.activeElement);
      const answered = busy || (await fill(place, place.dataset.poll));
      if (!answered || place.querySelector("[data-under-way]")) soon();
      else if (place.dataset.then === "reload") location.reload();
    };
    const soon = () => setTimeout(again, 1000);
    if (place.querySelector("[data-under-way]")) soon();
  }

  wake(document);
  document.querySelector(".fresh")?.focus();
  document.querySelector("main [role=alert]")?.scrollIntoView({ block: "center" });
})();
