// A table that scrolls sideways can be reached with the keyboard. The theme wraps tables after the page has loaded.
const reach = () => document.querySelectorAll(".md-typeset__scrollwrap").forEach((table) => (table.tabIndex = 0));
new MutationObserver(reach).observe(document.body, { childList: true, subtree: true });
reach();
