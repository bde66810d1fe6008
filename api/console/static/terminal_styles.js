// xterm.js writes its rules into style elements, and the colours of programs into style attributes. The page's policy forbids
// both, since what a stranger gets into a page may be either. Here they become what the policy allows: sheets that a
// script has made, and properties that a script sets. Import this before xterm.js.

const create = document.createElement;
const setAttribute = Element.prototype.setAttribute;

document.createElement = function (name, options) {
  if (name !== "style") return create.call(document, name, options);
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  return Object.defineProperty(create.call(document, "template"), "textContent", {set: text => sheet.replaceSync(text)});
};

Element.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};
