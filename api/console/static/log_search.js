// Search in the whole log, on the service: a field, the number of lines found, and steps from one to the next.

export class LogSearch {
  constructor(source, found) {
    this.source = source;
    this.found = found;
    this.lines = [];
    this.at = -1;
    this.text = "";
    this.form = document.createElement("form");
    this.form.className = "log-search";
    this.form.setAttribute("role", "search");
    this.form.setAttribute("aria-label", "Log");
    this.field = Object.assign(document.createElement("input"), {type: "search", placeholder: "Search the log", maxLength: 200});
    this.field.setAttribute("aria-label", "Search the log");
    this.count = document.createElement("span");
    this.count.className = "small";
    this.count.setAttribute("role", "status");
    this.form.append(this.field, this.button("Previous hit", "↑", -1), this.button("Next hit", "↓", 1), this.count);
    this.form.addEventListener("submit", event => {
      event.preventDefault();
      this.step(1);
    });
    this.field.addEventListener("keydown", event => {
      if (event.key === "Enter" && event.shiftKey) {
        event.preventDefault();
        this.step(-1);
      }
    });
    this.field.addEventListener("search", () => { if (!this.field.value) this.clear(); });
  }

  get current() {
    return this.lines[this.at] ?? null;
  }

  button(label, sign, by) {
    const button = Object.assign(document.createElement("button"), {type: "button", className: "tool", textContent: sign});
    button.setAttribute("aria-label", label);
    button.addEventListener("click", () => this.step(by));
    return button;
  }

  clear() {
    [this.lines, this.at, this.text] = [[], -1, ""];
    this.count.textContent = "";
    this.found([], null);
  }

  async step(by) {
    const text = this.field.value;
    if (!text) {
      this.clear();
      return;
    }
    if (text !== this.text) {
      this.count.textContent = "Searching…";
      try {
        const {count, lines} = await this.source.search(text);
        [this.text, this.lines, this.total, this.at] = [text, lines, count, by > 0 ? -1 : 0];
      } catch (error) {
        this.count.textContent = `${error.message}.`;
        return;
      }
    }
    if (this.lines.length === 0) {
      this.count.textContent = "No line has it.";
      this.found([], null);
      return;
    }
    this.at = (this.at + by + this.lines.length) % this.lines.length;
    const all = this.total > this.lines.length ? `; only the first ${this.lines.length} can be visited` : "";
    this.count.textContent = `${this.at + 1} of ${this.total.toLocaleString("en")} lines${all}`;
    this.found(this.lines, this.current);
  }
}
