"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 640px)");
  const touch = matchMedia("(pointer: coarse)");
  const LABELS = ["#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#8c96a0"];
  const CONFIG = {
    responsive: true, displaylogo: false, displayModeBar: "hover", showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  };

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const faint = (hex) => hex + "2e";
  /* Plotly interprets some markup and entities in names: escaped, a name is shown literally. */
  const plain = (text) => text.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);
  const colour = (line) => (dark.matches ? line.dark : line.light);

  /* Turns Plotly's dotted names, as relayout takes them, into the nested layout that newPlot needs. */
  function nested(layout, dotted) {
    for (const [path, value] of Object.entries(dotted)) {
      const names = path.split("."), last = names.pop();
      names.reduce((inner, name) => (inner[name] ??= {}), layout)[last] = value;
    }
    return layout;
  }

  function theme() {
    const ink = css("--ink"), muted = css("--muted"), line = css("--line"), paper = css("--paper");
    return {
      paper_bgcolor: paper, plot_bgcolor: paper,
      "font.color": ink, "hoverlabel.bgcolor": paper, "hoverlabel.bordercolor": line, "hoverlabel.font.color": ink,
      "xaxis.gridcolor": line, "yaxis.gridcolor": line, "xaxis.zerolinecolor": line, "yaxis.zerolinecolor": line,
      "xaxis.linecolor": muted, "yaxis.linecolor": muted,
      "modebar.color": muted, "modebar.activecolor": ink, "modebar.bgcolor": "rgba(0,0,0,0)",
      dragmode: touch.matches ? false : "zoom",
    };
  }

  /* The legend is next to the plot if there is room, else below it with one row per learner: never on top of it. A
     chart with labels beside its lines has none. */
  function legend(chart, labelled = false) {
    if (labelled && narrow.matches) return { height: 330, "margin.r": 10, "margin.b": 56, "margin.l": 42, "margin.t": 56, "yaxis.title.text": "", hovermode: "closest" };
    if (!narrow.matches) {
      return {
        height: 400, "margin.r": 190, "margin.b": 60, "margin.l": 58, "margin.t": 26, "legend.orientation": "v",
        "legend.x": 1.02, "legend.y": 1, "legend.yanchor": "top", "legend.yref": "paper", "legend.entrywidth": 0,
        "yaxis.title.text": chart.title, hovermode: "x unified",
      };
    }
    const tall = 19 * chart.lines.length + 10;
    return {
      height: 330 + tall, "margin.r": 10, "margin.b": 56 + tall, "margin.l": 42, "margin.t": 56, "legend.orientation": "v",
      "legend.x": 0, "legend.y": 0, "legend.yanchor": "bottom", "legend.yref": "container", "legend.entrywidth": 0,
      "yaxis.title.text": "", hovermode: "closest",
    };
  }

  /* The lines in drawing order: controls lie behind the others. */
  const behindFirst = (lines) => [...lines.filter((line) => line.control), ...lines.filter((line) => !line.control)];
  const rank = (chart, line) => chart.lines.indexOf(line);
  const stroke = (line) => ({ color: colour(line), dash: line.dash, width: line.control ? 6 : 1.8 });

  function band(chart, line) {
    const known = chart.step.map((_, at) => at).filter((at) => line.low[at] !== null && line.high[at] !== null);
    const there = known.map((at) => chart.step[at]), back = [...known].reverse();
    return {
      x: [...there, ...back.map((at) => chart.step[at])],
      y: [...known.map((at) => line.high[at]), ...back.map((at) => line.low[at])],
      name: plain(line.name), legendgroup: line.name, showlegend: false, mode: "none", fill: "toself", hoverinfo: "skip",
      fillcolor: faint(colour(line)), meta: "band",
    };
  }

  function curve(chart, line) {
    const ranged = Boolean(line.low);
    return {
      x: chart.step, y: line.mean, name: plain(line.name), legendgroup: line.name, mode: "lines", connectgaps: false,
      line: stroke(line), opacity: line.control ? 0.6 : 1, meta: "curve", legendrank: 1000 + rank(chart, line),
      customdata: ranged ? line.low.map((low, at) => [low, line.high[at]]) : undefined,
      hovertemplate: ranged ? "%{y:.3~g} [%{customdata[0]:.3~g}, %{customdata[1]:.3~g}]" : "%{y:.3~g}",
    };
  }

  /* Published values, as rings in the colours of their lines. */
  const rings = (chart) => (chart.published ?? []).map((each) => ({
    x: each.x, y: each.y, name: plain(each.name) + ", published", legendgroup: each.name, showlegend: false, mode: "markers", cliponaxis: false,
    marker: { symbol: "circle-open", size: 13, color: colour(each), line: { width: 2.5 } }, hovertemplate: "%{y:.3~g}",
  }));

  /* Ticks of a log axis between two powers of ten, as far apart as their labels need: 1, 2, 5, 10 or 1, 10, 100, or
     evenly spaced where the axis spans little. */
  function logTicks([low, high], room) {
    const most = Math.max(2, Math.floor(room / 26)), ends = [10 ** low, 10 ** high];
    const choices = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]];
    for (const [at, digits] of [...choices, ...Array(30).fill([1])].entries()) {
      const every = Math.max(1, at - choices.length + 2), ticks = [];
      for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
        if (power % every === 0) ticks.push(...digits.map((digit) => digit * 10 ** power));
      }
      const inside = ticks.filter((tick) => tick >= ends[0] * 0.9999 && tick <= ends[1] * 1.0001);
      const close = inside.some((tick, place) => place && (room * Math.log10(tick / inside[place - 1])) / (high - low) < 17);
      if (inside.length <= most && !close) return inside.length > 1 ? inside : evenTicks(ends, most);
    }
    return evenTicks(ends, most);
  }

  function evenTicks([low, high], most) {
    const rough = (high - low) / Math.min(most, 6), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((each) => each >= rough);
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
  }

  const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  function tickText(value) {
    if (value >= 1e-3 && value < 1e5) return Number(value.toPrecision(6)).toLocaleString("en");
    const power = Math.floor(Math.log10(value) + 1e-9), digit = Number((value / 10 ** power).toPrecision(3));
    const raised = "10" + [...String(power)].map((sign) => RAISED[sign]).join("");
    return digit === 1 ? raised : `${digit}·${raised}`;
  }

  function logAxis(place) {
    const axis = place._fullLayout.yaxis;
    if (axis.type !== "log") return { "yaxis.tickmode": "auto", "yaxis.tickvals": null, "yaxis.ticktext": null };
    const ticks = logTicks(axis.range, axis._length);
    return { "yaxis.tickmode": "array", "yaxis.tickvals": ticks, "yaxis.ticktext": ticks.map(tickText) };
  }

  /* Keeps the ticks of a log axis readable after the first drawing, a zoom, or a change of scale. */
  function retick(place) {
    const wanted = logAxis(place), now = place.layout.yaxis;
    const same = JSON.stringify([now.tickmode, now.tickvals]) === JSON.stringify([wanted["yaxis.tickmode"], wanted["yaxis.tickvals"]]);
    return same ? Promise.resolve() : Plotly.relayout(place, wanted);
  }

  const wrapped = (text, width) => text.split(" ").reduce((lines, word) => {
    if (lines.length && (lines.at(-1) + " " + word).length <= width) lines[lines.length - 1] += " " + word;
    else lines.push(word);
    return lines;
  }, []);

  /* Names and notes beside the ends of the lines, moved apart so that none covers another. */
  function endLabels(place, chart) {
    if (narrow.matches) return [];
    const axis = place._fullLayout.yaxis, log = axis.type === "log";
    const labels = chart.lines.map((line) => {
      const last = line.mean.filter((value) => value !== null).at(-1);
      const lines = wrapped(plain(line.note), 26), tall = 17 * (lines.length + 1);
      const share = ((log ? Math.log10(last) : last) - axis.range[0]) / (axis.range[1] - axis.range[0]);
      return { line, lines, tall, centre: (1 - share) * axis._length };
    }).sort((a, b) => a.centre - b.centre);
    let bottom = -Infinity;
    for (const label of labels) {
      label.centre = Math.max(label.centre, bottom + label.tall / 2 + 4);
      bottom = label.centre + label.tall / 2;
    }
    const over = Math.max(0, bottom - axis._length);
    return labels.map(({ line, lines, centre }) => ({
      x: 1.015, xref: "paper", xanchor: "left", y: 1 - (centre - over) / axis._length, yref: "paper", yanchor: "middle", showarrow: false,
      align: "left", text: [`<b>${plain(line.name)}</b>`, ...lines].join("<br>"), font: { size: 12.5, color: line.control ? css("--muted") : colour(line) },
    }));
  }

  function drawCurves(place) {
    const chart = data.parts[place.dataset.part][Number(place.dataset.chart)];
    const ordered = behindFirst(chart.lines), banded = ordered.filter((line) => line.low);
    const traces = [...banded.map((line) => band(chart, line)), ...ordered.map((line) => curve(chart, line)), ...rings(chart)];
    const labelled = chart.lines.some((line) => line.note !== undefined);
    const drawn = [...banded, ...ordered, ...(chart.published ?? [])];
    const colours = () => ({
      "line.color": drawn.map(colour), "marker.color": drawn.map(colour), fillcolor: drawn.map((line) => faint(colour(line))),
    });
    const note = `${chart.seeds} seed${chart.seeds > 1 ? "s" : ""}${data.quick ? " · quick version" : ""}`;
    const tasks = chart.tasks.map((task, at) => ({
      x: task.at, y: 1.005, yref: "paper", yanchor: "bottom", showarrow: false, text: (at ? "" : "task ") + task.label, font: { size: 12 },
    }));
    const layout = {
      font: { family: "system-ui, sans-serif", size: 12 }, showlegend: !labelled,
      xaxis: { title: { text: `examples (${note})`, standoff: 8 }, range: [0, chart.step.at(-1)], showline: true, tickformat: ",d", nticks: narrow.matches ? 5 : 7 },
      yaxis: {
        title: { text: chart.title }, type: chart.log ? "log" : "linear", showline: true, exponentformat: "power", minexponent: 5,
        rangemode: chart.lines.some((line) => (line.low ?? line.mean).some((value) => value < 0)) ? "normal" : "nonnegative",
      },
      legend: { xanchor: "left", tracegroupgap: 0, maxheight: 2000, font: { size: 11.5 } },
      hoverlabel: { font: { size: 11 } },
      shapes: chart.switches.map((at) => ({
        type: "line", x0: at, x1: at, y0: 0, y1: 1, yref: "paper", layer: "below", line: { color: "#8a929b", width: 1, dash: "dot" },
      })),
      annotations: tasks,
    };
    const themed = () => ({ ...theme(), ...legend(chart, labelled) });
    const finish = async () => {
      await retick(place);
      if (labelled) await Plotly.relayout(place, { annotations: [...tasks, ...endLabels(place, chart)] });
    };
    const figure = place.closest("figure"), switches = [...figure.querySelectorAll("[data-scale]")];
    const zeros = figure.querySelector(".zeros");
    for (const button of switches) {
      button.addEventListener("click", async () => {
        for (const other of switches) other.setAttribute("aria-pressed", String(other === button));
        if (zeros) zeros.hidden = button.dataset.scale !== "log";
        await Plotly.relayout(place, { "yaxis.type": button.dataset.scale, "yaxis.autorange": true });
        await finish();
      });
    }
    return Plotly.newPlot(place, traces, nested(layout, themed()), CONFIG).then(async () => {
      await finish();
      for (const event of ["plotly_restyle", "plotly_update"]) place.on(event, () => follow(place));
      place.on("plotly_relayout", (change) => { zoomTogether(place, change); retick(place); });
      return async () => { await Plotly.update(place, colours(), themed()); await finish(); };
    });
  }

  /* Shows in all charts of an experiment the examples that one of them was zoomed to. */
  function zoomTogether(leader, change) {
    if (!Object.keys(change).some((name) => name.startsWith("xaxis."))) return;
    const range = leader.layout.xaxis.range.map(Number);
    for (const place of document.querySelectorAll(".chart.curves")) {
      if (place === leader || place.dataset.part !== leader.dataset.part || !place.data) continue;
      const there = place.layout.xaxis.range.map(Number);
      if (range.some((end, at) => end !== there[at])) Plotly.relayout(place, { "xaxis.range": [...range], "xaxis.autorange": false });
    }
  }

  /* Hides in all charts of an experiment what was hidden in one: their traces are the same, in the same order. */
  function follow(leader) {
    const shown = leader.data.map((trace) => trace.visible ?? true);
    for (const place of document.querySelectorAll(".chart.curves")) {
      if (place === leader || place.dataset.part !== leader.dataset.part || !place.data) continue;
      if (place.data.some((trace, at) => (trace.visible ?? true) !== shown[at])) Plotly.restyle(place, { visible: shown });
    }
  }

  function drawCloud(place) {
    const cloud = data.clouds[Number(place.dataset.chart)];
    const traces = cloud.groups.map((group, at) => ({
      x: group.x, y: group.y, name: plain(group.label), mode: "markers", type: "scatter",
      marker: { color: LABELS[at % LABELS.length], size: 4, opacity: 0.8 }, hovertemplate: "%{fullData.name}<extra></extra>",
    }));
    const axis = { showticklabels: false, showgrid: false, zeroline: false, showline: true, mirror: true };
    const layout = {
      height: 340, margin: { l: 4, r: 4, t: 6, b: 6 }, showlegend: false, hovermode: "closest",
      xaxis: { ...axis }, yaxis: { ...axis, scaleanchor: "x" },
    };
    return Plotly.newPlot(place, traces, nested(layout, theme()), CONFIG).then(() => () => Plotly.relayout(place, theme()));
  }

  function labelSwitches(row, places) {
    data.clouds[0].groups.forEach((group, at) => {
      const button = document.createElement("button"), dot = document.createElement("i");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      dot.style.background = LABELS[at % LABELS.length];
      button.append(dot, group.label);
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        for (const place of places) Plotly.restyle(place, { visible: shown }, [at]);
      });
      row.append(button);
    });
  }

  /* Lines along an axis of a sweep; diverged settings are marked at the top of the plot. */
  function drawLines(place) {
    const chart = data.lines[Number(place.dataset.chart)], ordered = behindFirst(chart.lines);
    const x = (line, at) => (chart.numbers ? line.x[at] : line.labels[at]);
    const curves = ordered.map((line) => ({
      x: line.x.map((_, at) => x(line, at)), y: line.mean, name: plain(line.name), legendgroup: line.name, mode: "lines+markers",
      line: stroke(line), marker: { size: line.control ? 9 : 5 }, opacity: line.control ? 0.6 : 1, legendrank: 1000 + rank(chart, line),
      error_y: {
        type: "data", symmetric: false, thickness: 1, width: 2,
        array: line.high.map((high, at) => (high === null ? 0 : high - line.mean[at])),
        arrayminus: line.low.map((low, at) => (low === null ? 0 : line.mean[at] - low)),
      },
      customdata: line.low.map((low, at) => [low, line.high[at], line.labels[at]]),
      hovertemplate: "%{y:.4~g} [%{customdata[0]:.4~g}, %{customdata[1]:.4~g}]",
    }));
    const gone = ordered.map((line) => ({
      x: line.diverged.map((at) => x(line, at)), y: line.diverged.map(() => 1), yaxis: "y2", name: plain(line.name) + " diverged",
      legendgroup: line.name, showlegend: false, mode: "markers", marker: { symbol: "x-thin", size: 8, line: { width: 2, color: colour(line) } },
      hovertemplate: "diverged", cliponaxis: false,
    }));
    const layout = {
      font: { family: "system-ui, sans-serif", size: 12 },
      xaxis: { title: { text: plain(chart.along), standoff: 8 }, type: chart.numbers ? (chart.log ? "log" : "linear") : "category", showline: true },
      yaxis: { title: { text: chart.title }, showline: true, ...(chart.limits ? { range: chart.limits } : {}), exponentformat: "power", minexponent: 5 },
      yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
      legend: { xanchor: "left", tracegroupgap: 0, font: { size: 11.5 } }, hoverlabel: { font: { size: 11 } },
    };
    if (chart.numbers) {
      layout.xaxis.tickvals = chart.ticks.map((tick) => tick[0]);
      layout.xaxis.ticktext = chart.ticks.map((tick) => tick[1]);
    }
    const themed = () => ({ ...theme(), ...legend(chart) });
    const drawn = [...ordered, ...ordered, ...(chart.published ?? [])];
    return Plotly.newPlot(place, [...curves, ...gone, ...rings(chart)], nested(layout, themed()), CONFIG).then(() => () => {
      Plotly.update(place, { "line.color": drawn.map(colour), "marker.color": drawn.map(colour), "marker.line.color": drawn.map(colour) }, themed());
    });
  }

  /* A heat map for the learner and the two axes selected above it. */
  function drawHeat(place) {
    const [who, which] = place.closest("figure").querySelectorAll("select");
    const names = data.heats.map((each) => each.name);
    names.forEach((name) => who.add(new Option(name)));
    const pairs = () => data.heats[who.selectedIndex].maps;
    const offer = () => which.replaceChildren(...pairs().map((map) => new Option(`${map.across} × ${map.down}`)));
    const show = () => {
      const map = pairs()[which.selectedIndex], seen = map.mean.flat().filter((value) => value !== null);
      const cells = map.mean.map((row) => row.map((value) => (value === null ? "×" : value.toPrecision(3))));
      const heat = {
        type: "heatmap", x: map.columns, y: map.rows, z: map.mean, text: cells, texttemplate: "%{text}", colorscale: "Viridis", reversescale: true,
        zmin: Math.min(...seen), zmax: data.high, hovertemplate: "%{x}, %{y}: %{text}<extra></extra>", xgap: 1, ygap: 1, colorbar: { thickness: 12 },
      };
      const best = {
        x: [map.best[0]], y: [map.best[1]], mode: "markers", hoverinfo: "skip", showlegend: false,
        marker: { symbol: "square-open", size: 34, color: "#e6550d", line: { width: 3 } },
      };
      const crosses = {
        x: map.gone.map((at) => at[0]), y: map.gone.map((at) => at[1]), mode: "text", text: map.gone.map(() => "×"), showlegend: false,
        hovertemplate: "diverged<extra></extra>",
      };
      const layout = {
        height: 420, margin: { l: 110, r: 10, t: 16, b: 90 }, font: { family: "system-ui, sans-serif", size: 12 }, hovermode: "closest",
        xaxis: { type: "category", title: { text: plain(map.across) } }, yaxis: { type: "category", title: { text: plain(map.down) } },
      };
      return Plotly.react(place, [heat, crosses, best], nested(layout, theme()), CONFIG);
    };
    who.addEventListener("change", () => { offer(); show(); });
    which.addEventListener("change", show);
    offer();
    return show().then(() => show);
  }

  /* Differences to a reference, which is the line at 0: a mean and its interval for each learner. Controls do not set
     the limits of the axis; where one is beyond them, its mean is written at the edge, as is that a learner diverged. */
  function drawForest(place) {
    const forest = data.forests[Number(place.dataset.chart)], switches = [...place.closest("figure").querySelectorAll("[data-phase]")];
    let shown = switches[0].dataset.phase;
    const show = () => {
      const rows = forest.phases[shown], known = rows.filter((row) => row.mean !== null), near = known.filter((row) => !row.control), scaled = near.length ? near : known;
      const least = Math.min(0, ...scaled.map((row) => row.low)), most = Math.max(0, ...scaled.map((row) => row.high)), wide = most - least || 1;
      const range = [least - 0.08 * wide, most + 0.2 * wide], inside = known.filter((row) => row.mean >= range[0] && row.mean <= range[1]);
      const traces = inside.map((row) => ({
        x: [row.mean], y: [plain(row.name)], mode: "markers", showlegend: false, marker: { color: colour(row), size: 9 },
        error_x: { type: "data", symmetric: false, array: [row.high - row.mean], arrayminus: [row.mean - row.low], color: colour(row), thickness: 2.5, width: 0 },
        hovertemplate: `%{x:+.2~f}% [${row.low}, ${row.high}]<extra>${plain(row.name)}</extra>`,
      }));
      const isRight = (row) => row.mean === null || row.mean > 0;
      const words = (row) => (row.mean === null ? "diverged" : row.mean > 0 ? `+${Math.round(row.mean)}% →` : `← ${Math.round(row.mean)}%`);
      const layout = {
        height: 110 + 24 * rows.length, margin: { l: narrow.matches ? 130 : 200, r: 16, t: narrow.matches ? 34 : 8, b: 60 }, hovermode: "closest",
        font: { family: "system-ui, sans-serif", size: narrow.matches ? 10 : 12 },
        xaxis: { title: { text: `${forest.axis}${data.quick ? `${narrow.matches ? "<br>" : " · "}quick version` : ""}`, standoff: 8 }, range, ticksuffix: "%", zeroline: false, nticks: narrow.matches ? 5 : 9 },
        yaxis: { type: "category", categoryarray: rows.map((row) => plain(row.name)), range: [rows.length - 0.5, -0.5], showgrid: false },
        shapes: [
          { type: "line", x0: 0, x1: 0, y0: 0, y1: 1, yref: "paper", line: { color: css("--muted"), width: 1.5 } },
          ...rows.map((row, at) => at).filter((at) => at && rows[at].group !== rows[at - 1].group).map((at) => (
            { type: "line", x0: 0, x1: 1, xref: "paper", y0: at - 0.5, y1: at - 0.5, line: { color: css("--line"), width: 1 } })),
        ],
        annotations: rows.filter((row) => !inside.includes(row)).map((row) => ({
          x: isRight(row) ? 1 : 0, xref: "paper", xanchor: isRight(row) ? "right" : "left", y: plain(row.name), showarrow: false, text: words(row), font: { color: css("--muted") },
        })),
      };
      return Plotly.react(place, traces, nested(layout, theme()), CONFIG);
    };
    for (const button of switches) {
      button.addEventListener("click", () => {
        for (const other of switches) other.setAttribute("aria-pressed", String(other === button));
        shown = button.dataset.phase;
        show();
      });
    }
    return show().then(() => show);
  }

  /* A point for each learner: what a step costs, and the error with its interval. */
  function drawScatter(place) {
    const chart = data.scatters[Number(place.dataset.chart)];
    const across = chart.points.map((point) => Math.log10(point.x));
    const range = across.length ? [Math.min(...across) - 0.06, Math.max(...across) + 0.06] : [0, 1];
    const ticks = logTicks(range, 300);
    const show = () => {
      const traces = chart.points.map((point) => ({
        x: [point.x], y: [point.y], name: plain(point.name), mode: narrow.matches ? "markers" : "markers+text", text: [plain(point.name)], textposition: "middle right",
        textfont: { size: 11, color: colour(point) }, marker: { color: colour(point), size: 9 }, showlegend: narrow.matches, cliponaxis: false,
        error_y: { type: "data", symmetric: false, array: [point.high - point.y], arrayminus: [point.y - point.low], color: colour(point), thickness: 1.5, width: 0 },
        hovertemplate: `%{y:.1f}% [${point.low}, ${point.high}], %{x:.3~g} µs<extra>${plain(point.name)}</extra>`,
      }));
      const tall = narrow.matches ? 19 * chart.points.length + 10 : 0;
      const layout = {
        height: 480 + tall, margin: { l: 58, r: narrow.matches ? 10 : 130, t: 16, b: 60 + tall }, hovermode: "closest", font: { family: "system-ui, sans-serif", size: 12 },
        xaxis: { title: { text: `${chart.across}${data.quick ? " · quick version" : ""}`, standoff: 8 }, type: "log", showline: true, range, tickvals: ticks, ticktext: ticks.map(tickText) },
        yaxis: { title: { text: plain(chart.up) }, ticksuffix: "%", showline: true },
        legend: { x: 0, y: 0, xanchor: "left", yanchor: "bottom", yref: "container", tracegroupgap: 0, font: { size: 11.5 } },
      };
      return Plotly.react(place, traces, nested(layout, theme()), CONFIG);
    };
    return show().then(() => show);
  }

  /* Shows in the charts below two selections the part that they choose. A figure is copied to drop its listeners. */
  function choosePart(chooser, redraws) {
    const chosen = [...chooser.querySelectorAll("select")], figures = chooser.querySelectorAll("figure").length;
    let latest = 0;
    const show = async () => {
      const turn = latest += 1, part = chosen.map((each) => each.value).join("|");
      for (let at = 0; at < figures && turn === latest; at += 1) {
        const old = chooser.querySelectorAll("figure")[at], chart = data.parts[part][at];
        redraws.delete(old.querySelector(".chart"));
        const figure = old.cloneNode(true), place = document.createElement("div"), drawn = figure.querySelector(".chart");
        for (const name of ["class", "data-part", "data-chart", "role", "aria-label"]) place.setAttribute(name, drawn.getAttribute(name));
        place.className = "chart curves";
        place.dataset.part = part;
        drawn.replaceWith(place);
        old.replaceWith(figure);
        figure.hidden = !chart;
        if (!chart) continue;
        figure.querySelector("h3").textContent = chart.title[0].toUpperCase() + chart.title.slice(1);
        for (const button of figure.querySelectorAll("[data-scale]")) button.setAttribute("aria-pressed", String((button.dataset.scale === "log") === chart.log));
        redraws.set(place, await drawCurves(place));
      }
    };
    for (const each of chosen) each.addEventListener("change", show);
  }

  async function draw() {
    const redraws = new Map();
    const kinds = { forest: drawForest, lines: drawLines, heat: drawHeat, curves: drawCurves, cloud: drawCloud, scatter: drawScatter };
    for (const [kind, drawn] of Object.entries(kinds)) {
      for (const place of document.querySelectorAll(`.chart.${kind}`)) redraws.set(place, await drawn(place));
    }
    for (const chooser of document.querySelectorAll(".chooser")) choosePart(chooser, redraws);
    const clouds = [...document.querySelectorAll(".chart.cloud")], row = document.querySelector(".labels");
    if (row && clouds.length) labelSwitches(row, clouds);
    for (const query of [dark, narrow]) query.addEventListener("change", () => redraws.forEach((redraw) => redraw()));
    document.documentElement.dataset.drawn = "yes";
  }
  draw();
})();
