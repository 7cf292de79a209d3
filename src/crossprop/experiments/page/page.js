"use strict";
(() => {
  const { figures, quick } = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)"), narrow = matchMedia("(max-width: 640px)"), touch = matchMedia("(pointer: coarse)");
  const CONFIG = {
    responsive: true, displaylogo: false, displayModeBar: "hover", showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const faint = (hex) => hex + "2e";
  const colour = (look) => (dark.matches ? look.dark : look.light);
  /* Plotly interprets some markup and entities in names: escaped, a name is shown literally. */
  const plain = (text) => text.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);

  function axis(wanted, more = {}) {
    const { title = "", log, limits, ticks, unit } = wanted, line = css("--line");
    return {
      title: { text: plain(title), standoff: 8 }, type: log ? "log" : "linear", showline: true, linecolor: css("--muted"), gridcolor: line, zerolinecolor: line,
      exponentformat: "power", minexponent: 5, ticksuffix: unit,
      ...(limits && { range: log ? limits.map(Math.log10) : limits }),
      ...(ticks && { tickvals: ticks.map((tick) => tick[0]), ticktext: ticks.map((tick) => tick[1]) }),
      ...(log && !ticks && { nticks: 3, tickformat: ",~g" }),
      ...more,
    };
  }

  /* The legend is next to the plot if there is room, else below it with one row per line: never on top of it. */
  function layout(chart, more) {
    const ink = css("--ink"), muted = css("--muted"), paper = css("--paper"), legend = more.showlegend !== false;
    const below = narrow.matches && legend ? 19 * chart.lines.length + 10 : 0;
    return {
      height: (narrow.matches ? 330 : 400) + below, paper_bgcolor: paper, plot_bgcolor: paper, font: { family: "system-ui, sans-serif", size: 12, color: ink },
      margin: narrow.matches ? { l: 48, r: 10, t: 56, b: 56 + below } : { l: 62, r: legend ? 190 : 14, t: 46, b: 60 },
      hoverlabel: { bgcolor: paper, bordercolor: css("--line"), font: { color: ink, size: 11 } }, hovermode: "closest", dragmode: touch.matches ? false : "zoom",
      modebar: { color: muted, activecolor: ink, bgcolor: "rgba(0,0,0,0)" }, uirevision: "kept",
      legend: {
        xanchor: "left", tracegroupgap: 0, maxheight: 2000, font: { size: 11.5 },
        ...(narrow.matches ? { x: 0, y: 0, yanchor: "bottom", yref: "container" } : { x: 1.02, y: 1, yanchor: "top" }),
      },
      ...more,
    };
  }

  const named = (line, shared) => ({
    name: plain(line.name), legendgroup: line.name, legendrank: 1000 + line.rank,
    visible: shared.alone && !shared.alone.includes(line.name) ? false : shared.hidden.has(line.name) ? "legendonly" : true,
  });
  const bars = (line) => line.low && {
    type: "data", symmetric: false, thickness: 1, width: 2,
    array: line.high.map((high, at) => (high === null ? 0 : high - line.y[at])), arrayminus: line.low.map((low, at) => (low === null ? 0 : line.y[at] - low)),
  };
  const spans = (line) => line.low && line.low.map((low, at) => [low, line.high[at]]);
  const rings = (chart, shared) => (chart.rings ?? []).map((ring) => ({
    x: [ring.x], y: [ring.y], name: plain(ring.name), showlegend: false, mode: "markers", cliponaxis: false,
    marker: { symbol: "circle-open", size: 13, color: colour(ring.look), line: { width: 2.5 } }, hovertemplate: "%{y:.3~g}",
  }));
  /* Controls lie behind the others. */
  const behindFirst = (lines) => [...lines.filter((line) => line.look.control), ...lines.filter((line) => !line.look.control)];
  const stroke = (line) => ({ color: colour(line.look), dash: line.look.dash, width: line.look.control ? 6 : 1.8 });

  function band(line, shared) {
    const known = line.x.map((_, at) => at).filter((at) => line.low[at] !== null && line.high[at] !== null), back = [...known].reverse();
    return {
      ...named(line, shared), x: [...known, ...back].map((at) => line.x[at]), y: [...known.map((at) => line.high[at]), ...back.map((at) => line.low[at])],
      showlegend: false, mode: "none", fill: "toself", hoverinfo: "skip", fillcolor: faint(colour(line.look)), meta: "band",
    };
  }

  /* Lines over the examples, or along a setting: then with dots and bars, and with crosses at the top for what diverged. */
  function lines(chart, shared, figure) {
    const over = chart.kind === "curves", ordered = behindFirst(chart.lines), log = figure.log ?? Boolean(chart.y.log);
    const drawn = ordered.map((line) => ({
      ...named(line, shared), x: line.x, y: line.y, mode: over ? "lines" : "lines+markers", connectgaps: false, line: stroke(line), opacity: line.look.control ? 0.6 : 1,
      marker: { size: line.look.control ? 9 : 5 }, meta: "curve", customdata: spans(line), ...(!over && { error_y: bars(line) }),
      hovertemplate: line.low ? "%{y:.3~g} [%{customdata[0]:.3~g}, %{customdata[1]:.3~g}]" : "%{y:.3~g}",
    }));
    const gone = ordered.filter((line) => line.diverged).map((line) => ({
      ...named(line, shared), x: line.diverged.map((at) => line.x[at]), y: line.diverged.map(() => 1), yaxis: "y2", name: plain(line.name) + " diverged", showlegend: false,
      mode: "markers", marker: { symbol: "x-thin", size: 8, line: { width: 2, color: colour(line.look) } }, hovertemplate: "diverged", cliponaxis: false,
    }));
    const tasks = chart.tasks ?? [], noted = chart.lines.some((line) => line.note), first = chart.lines[0].x[0];
    const least = Math.min(...chart.lines.flatMap((line) => line.low ?? line.y).filter((value) => value !== null));
    const names = !over && typeof first === "string";
    const across = over
      ? { tickformat: ",d", nticks: narrow.matches ? 5 : 7, ...(shared.range && { range: shared.range }), ...(quick && { title: { text: `${chart.x.title} · quick version`, standoff: 8 } }) }
      : names ? { type: "category" } : { nticks: 6 };
    return {
      data: [...(over ? ordered.filter((line) => line.low).map((line) => band(line, shared)) : []), ...drawn, ...gone, ...rings(chart, shared)],
      layout: layout(chart, {
        showlegend: !noted, hovermode: narrow.matches ? "closest" : "x unified", xaxis: axis(chart.x, across),
        yaxis: axis({ ...chart.y, log, ...(narrow.matches && { title: "" }) }, chart.y.limits ? {} : { rangemode: least < 0 ? "normal" : "nonnegative" }),
        yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
        shapes: tasks.filter((task) => task.start >= first).map((task) => ({
          type: "line", x0: task.start, x1: task.start, y0: 0, y1: 1, yref: "paper", layer: "below", line: { color: "#8a929b", width: 1, dash: "dot" },
        })),
        annotations: [
          ...tasks.map((task, at) => ({ x: (task.start + task.end) / 2, y: 1.005, yref: "paper", yanchor: "bottom", showarrow: false, text: (at ? "" : "task ") + task.label })),
          ...(log && chart.zeros ? [{ x: 1, xref: "paper", xanchor: "right", y: 0, yref: "paper", yanchor: "bottom", showarrow: false, text: plain(chart.zeros), font: { color: css("--muted") } }] : []),
        ],
      }),
    };
  }

  /* An interval in each row. Where a number is beyond the axis it is written at the edge, as is that a learner diverged. */
  function forest(chart) {
    const rows = chart.lines, [least, most] = chart.y.limits, unit = chart.y.unit ?? "";
    const inside = rows.filter((row) => row.y[0] !== null && row.y[0] >= least && row.y[0] <= most), isRight = (row) => !(row.y[0] < 0);
    const words = (row) => (row.y[0] === null ? "diverged" : isRight(row) ? `+${Math.round(row.y[0])}${unit} →` : `← ${Math.round(row.y[0])}${unit}`);
    const points = inside.map((row) => ({
      x: row.y, y: [plain(row.name)], mode: "markers", marker: { color: colour(row.look), size: 9 }, error_x: { ...bars(row), color: colour(row.look), thickness: 2.5, width: 0 },
      hovertemplate: `%{x:+.2~f}${unit} [${row.low?.[0]}, ${row.high?.[0]}]<extra>${plain(row.name)}</extra>`,
    }));
    const hollow = (chart.rings ?? []).map((ring) => ({
      x: [ring.y], y: [plain(ring.x)], mode: "markers", marker: { symbol: "circle-open", size: 10, color: colour(ring.look), line: { width: 2 } }, hovertemplate: `%{x:.2~f}<extra>${plain(ring.name)}</extra>`,
    }));
    const rule = (along, at, look) => ({ type: "line", x0: 0, x1: 1, y0: 0, y1: 1, [`${along}0`]: at, [`${along}1`]: at, [along === "x" ? "yref" : "xref"]: "paper", line: look });
    return {
      data: [...points, ...hollow],
      layout: layout(chart, {
        height: 110 + 24 * rows.length, margin: { l: narrow.matches ? 130 : 200, r: 16, t: narrow.matches ? 34 : 8, b: 60 }, showlegend: false,
        font: { family: "system-ui, sans-serif", size: narrow.matches ? 10 : 12, color: css("--ink") },
        xaxis: axis({ ...chart.y, title: chart.y.title + (quick && !narrow.matches ? " · quick version" : "") }, { zeroline: false, nticks: narrow.matches ? 5 : 9 }),
        yaxis: axis(chart.x, { type: "category", categoryarray: rows.map((row) => plain(row.name)), range: [rows.length - 0.5, -0.5], showgrid: false, showline: false }),
        shapes: [
          rule("x", 0, { color: css("--muted"), width: 1.5 }),
          ...rows.map((_, at) => at).filter((at) => at && rows[at].group !== rows[at - 1].group).map((at) => rule("y", at - 0.5, { color: css("--line"), width: 1 })),
        ],
        annotations: rows.filter((row) => !inside.includes(row)).map((row) => ({
          x: isRight(row) ? 1 : 0, xref: "paper", xanchor: isRight(row) ? "right" : "left", y: plain(row.name), showarrow: false, text: words(row), font: { color: css("--muted") },
        })),
      }),
    };
  }

  /* A number for each cell; a frame marks the best, crosses what diverged. */
  function heat(chart) {
    const columns = chart.lines[0].x, rows = chart.lines.map((line) => line.name), [zmin, zmax] = chart.y.limits ?? [];
    const text = chart.lines.map((line) => line.y.map((value, at) => (line.diverged?.includes(at) ? "×" : value === null ? "" : value.toPrecision(3))));
    const frame = (ring) => ({
      type: "rect", x0: columns.indexOf(ring.x) - 0.5, x1: columns.indexOf(ring.x) + 0.5, y0: rows.indexOf(ring.y) - 0.5, y1: rows.indexOf(ring.y) + 0.5, line: { color: "#e6550d", width: 3 },
    });
    const cells = {
      type: "heatmap", x: columns, y: rows, z: chart.lines.map((line) => line.y), text, texttemplate: "%{text}", colorscale: "Viridis", reversescale: true,
      zmin, zmax, hovertemplate: "%{x}, %{y}: %{text}<extra></extra>", xgap: 1, ygap: 1, colorbar: { thickness: 12 },
    };
    /* Plotly writes nothing into cells without a number. */
    const crosses = chart.lines.flatMap((line) => (line.diverged ?? []).map((at) => ({ x: columns[at], y: line.name, showarrow: false, text: "×" })));
    const names = { type: "category", showgrid: false, limits: undefined };
    return {
      data: [cells],
      layout: layout(chart, {
        height: 420, margin: { l: 110, r: 10, t: 16, b: 90 }, showlegend: false, shapes: (chart.rings ?? []).map(frame), annotations: crosses,
        xaxis: axis(chart.x, names), yaxis: axis({ title: chart.y.title }, names),
      }),
    };
  }

  /* A point with its interval for each learner. */
  function scatter(chart) {
    const points = chart.lines.map((line) => ({
      x: line.x, y: line.y, name: plain(line.name), mode: narrow.matches ? "markers" : "markers+text", text: [plain(line.name)], textposition: "middle right",
      textfont: { size: 11, color: colour(line.look) }, marker: { color: colour(line.look), size: 9 }, cliponaxis: false,
      error_y: { ...bars(line), color: colour(line.look), thickness: 1.5, width: 0 },
      hovertemplate: `%{y:.1f}${chart.y.unit ?? ""} [${line.low?.[0]}, ${line.high?.[0]}], %{x:.3~g}<extra>${plain(line.name)}</extra>`,
    }));
    const more = narrow.matches ? {} : { height: 480, showlegend: false, margin: { l: 62, r: 130, t: 16, b: 60 } };
    return { data: points, layout: layout(chart, { ...more, xaxis: axis(chart.x, { nticks: 6 }), yaxis: axis(chart.y) }) };
  }

  /* The points of classes. */
  function cloud(chart, shared) {
    const points = chart.lines.map((line) => ({
      ...named(line, shared), x: line.x, y: line.y, mode: "markers", marker: { color: colour(line.look), size: 4, opacity: 0.8 }, hovertemplate: "%{fullData.name}<extra></extra>",
    }));
    const bare = { showticklabels: false, showgrid: false, zeroline: false, mirror: true };
    return {
      data: points,
      layout: layout(chart, {
        height: 380, margin: { l: 4, r: 4, t: 6, b: 46 }, xaxis: axis(chart.x, bare), yaxis: axis(chart.y, { ...bare, scaleanchor: "x" }),
        legend: { orientation: "h", x: 0, y: 0, yanchor: "top", font: { size: 11.5 }, itemsizing: "constant", bgcolor: "rgba(0,0,0,0)" },
      }),
    };
  }

  const KINDS = { curves: lines, along: lines, forest, heat, scatter, cloud };

  /* Draws a figure again: its chart, in the colours of the page, without what is hidden in the figures linked with it. */
  function show(figure) {
    const { place, shared } = figure, chart = figure.charts[shared.chosen];
    place.closest("figure").hidden = !chart;
    if (!chart) return Promise.resolve();
    for (const button of place.closest("figure").querySelectorAll("[data-scale]")) {
      button.setAttribute("aria-pressed", String((button.dataset.scale === "log") === (figure.log ?? Boolean(chart.y.log))));
    }
    const drawn = KINDS[chart.kind](chart, shared, figure);
    return Plotly.react(place, drawn.data, drawn.layout, CONFIG).then(() => {
      if (!figure.heard) hear(figure);
      figure.heard = true;
    });
  }

  /* Hides a line, or shows it again; with `alone`, hides all others, or shows all again. */
  function toggle(shared, name, alone) {
    const all = shared.figures.flatMap((figure) => Object.values(figure.charts)).flatMap((chart) => chart.lines.map((line) => line.name));
    const others = [...new Set(all)].filter((each) => each !== name);
    if (alone) shared.hidden = new Set(others.every((each) => shared.hidden.has(each)) ? [] : others);
    else if (!shared.hidden.delete(name)) shared.hidden.add(name);
    shared.figures.forEach(show);
    return false;
  }

  /* What the reader does in a chart: hide lines by the legend, and zoom. */
  function hear(figure) {
    const { place, shared } = figure;
    const name = (event) => event.data[event.curveNumber].legendgroup;
    let click = 0;  // a redraw between two clicks could make Plotly miss that they are a double click
    place.on("plotly_legendclick", (event) => {
      clearTimeout(click);
      click = setTimeout(toggle, 300, shared, name(event), false);
      return false;
    });
    place.on("plotly_legenddoubleclick", (event) => {
      clearTimeout(click);
      return toggle(shared, name(event), true);
    });
    place.on("plotly_relayout", (change) => {
      if (!Object.keys(change).some((name) => name.startsWith("xaxis.")) || !place.matches(".curves")) return;
      const range = place.layout.xaxis.range.map(Number);
      if (range.join() === shared.range?.join()) return;
      shared.range = range;
      for (const other of shared.figures) if (other !== figure && other.heard) Plotly.relayout(other.place, { "xaxis.range": [...range] });
    });
  }

  /* What the reader does above a chart: switch the scale, choose a chart or a group of lines. */
  function listen(figure) {
    const { place, shared, filters } = figure, box = place.closest("figure");
    for (const button of box.querySelectorAll("[data-scale]")) {
      button.addEventListener("click", () => { figure.log = button.dataset.scale === "log"; show(figure); });
    }
    for (const select of box.querySelectorAll("select")) {
      const isFilter = select.dataset.choose === "lines";
      select.addEventListener("change", () => {
        if (isFilter) shared.alone = filters[select.value];
        else shared.chosen = select.value;
        for (const other of shared.figures) {
          for (const same of other.place.closest("figure").querySelectorAll(`[data-choose="${select.dataset.choose}"]`)) same.value = select.value;
          show(other);
        }
      });
    }
  }

  async function draw() {
    const groups = {};
    for (const place of document.querySelectorAll(".chart")) {
      const at = Number(place.dataset.figure), figure = figures[at], shared = groups[figure.linked ?? at] ??= { hidden: new Set(), figures: [] };
      for (const chart of Object.values(figure.charts)) chart.lines.forEach((line, rank) => { line.x ??= chart.lines[0].x; line.rank = rank; });
      Object.assign(figure, { place, shared });
      shared.figures.push(figure);
      shared.chosen ??= Object.keys(figure.charts)[0];
      shared.alone ??= Object.values(figure.filters)[0];
      listen(figure);
      await show(figure);
    }
    for (const query of [dark, narrow]) query.addEventListener("change", () => figures.forEach(show));
    document.documentElement.dataset.drawn = "yes";
  }
  draw();
})();
