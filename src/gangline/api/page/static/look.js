// Before anything is drawn: light or dark, as chosen here before, or as the system has it.
(() => {
  const chosen = localStorage.getItem("gangline-look");
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.look = chosen || system;
})();
