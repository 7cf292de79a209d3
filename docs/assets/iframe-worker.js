// Browsers start no Worker from a page on disk. There, a hidden frame runs the search in its place: it loads the same
// script, and copies of messages are passed between the two by hand.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.title = "search"
      document.documentElement.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = (data) => setTimeout(() => this.onmessage?.({ data: structuredClone(data) }))
      const script = this.frame.contentDocument.createElement("script")
      script.src = url
      script.onerror = () => this.onerror?.(new ErrorEvent("error", { message: `cannot load ${url}` }))
      this.loaded = new Promise((done) => script.addEventListener("load", done))
      this.frame.contentDocument.head.append(script)
    }
    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow?.onmessage?.({ data: structuredClone(data) }))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
