// The events of a build, while its page is looked at. A browser opens six connections to a service, for all of its tabs, and
// each stream holds one of them for as long as it lasts: a seventh tab would load nothing. So a tab that is not seen holds
// none, and goes on where it was when it is seen again.

const NAMES = ["states", "changes", "joined", "restarting", "end"];
const LATE_MS = 5000;

class SeenEvents extends EventTarget {
  constructor(url) {
    super();
    this.url = new URL(url, location.href);
    this.stream = null;
    this.late = null;
    this.again = false;
    this.readyState = EventSource.CONNECTING;
    this.turn = () => document.hidden ? this.drop() : this.open();
    document.addEventListener("visibilitychange", this.turn);
    this.turn();
  }

  open() {
    if (this.stream) return;
    const stream = this.stream = new EventSource(this.url);
    // A proxy that passes answers on when they are whole would keep those of a stream until the build ends.
    if (!this.url.searchParams.has("once")) this.late = setTimeout(() => this.poll(), LATE_MS);
    stream.addEventListener("begin", () => clearTimeout(this.late));
    stream.addEventListener("again", () => { this.again = true; });
    stream.onopen = event => {
      this.readyState = stream.readyState;
      this.onopen?.(event);
    };
    stream.onerror = event => {
      clearTimeout(this.late);
      const expected = this.again;
      this.again = false;
      if (expected && stream.readyState === EventSource.CONNECTING) return; // the answer was whole: the browser asks again
      this.readyState = stream.readyState;
      if (this.readyState === EventSource.CLOSED) this.close(); // htmx makes another one
      this.onerror?.(event);
    };
    for (const name of NAMES) {
      stream.addEventListener(name, ({data, lastEventId}) => {
        if (lastEventId) this.url.searchParams.set("seen", lastEventId);
        this.dispatchEvent(new MessageEvent(name, {data, lastEventId}));
      });
    }
  }

  poll() {
    this.drop();
    this.url.searchParams.set("once", "yes");
    this.open();
  }

  drop() {
    clearTimeout(this.late);
    this.stream?.close();
    this.stream = null;
  }

  close() {
    document.removeEventListener("visibilitychange", this.turn);
    this.readyState = EventSource.CLOSED;
    this.drop();
  }
}

htmx.createEventSource = url => new SeenEvents(url);
