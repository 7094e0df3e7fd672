// Adds what only a script can do: copy buttons, which stay hidden without it.
"use strict";

const SAID_MS = 2000;

function copyBySelection(element) {
  // Browsers give pages the clipboard on https and localhost only; elsewhere the selection serves.
  const selection = document.getSelection();
  selection.selectAllChildren(element);
  const done = document.execCommand("copy");
  if (done) selection.removeAllRanges();
  return done;
}

async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    return copyBySelection(element);
  }
}

for (const button of document.querySelectorAll("button.copy")) {
  const code = button.parentElement.querySelector("code");
  const said = document.getElementById("said");
  button.hidden = false;
  button.addEventListener("click", async () => {
    const done = await copy(code);
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    said.textContent = button.textContent;
    setTimeout(() => {
      button.textContent = "Copy";
      said.textContent = "";
    }, SAID_MS);
  });
}
