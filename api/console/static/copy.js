// A button beside each text that is there to be copied.

for (const text of document.querySelectorAll(".copied")) {
  if (!navigator.clipboard) break;
  const button = Object.assign(document.createElement("button"), {type: "button", className: "tool", textContent: "Copy"});
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  });
  text.after(button);
}
