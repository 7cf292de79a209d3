"""Parts of HTML pages that are shared: the page writer, templates for tables and charts, and the numbers in charts."""
