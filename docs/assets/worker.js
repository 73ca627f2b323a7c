// Search in a page that was opened from a folder: browsers start no Worker there, so its script runs in a hidden frame.
(() => {
  "use strict";
  if (location.protocol !== "file:") return;
  window.Worker = class {
    constructor(address) {
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.inner = this.frame.contentWindow;
      this.inner.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      const script = this.inner.document.createElement("script");
      script.src = new URL(address, document.baseURI).href;
      script.onload = () => {
        const first = this.waiting;
        this.waiting = null;
        first.forEach((data) => this.postMessage(data));
      };
      script.onerror = () => this.onerror?.(new Event("error"));
      this.inner.document.body.append(script);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else setTimeout(() => this.inner.onmessage?.({ data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
})();
