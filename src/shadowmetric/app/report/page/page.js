"use strict";
// Tabs, choices and themes of the page, and when its plots are drawn. All figures come ready-made in #figures.
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const CLASSES = 10;
  const plots = new Map(); // element -> function that returns its traces and layout
  root.classList.add("js");

  // ---- colors: `var(--name)` anywhere in a figure is looked up in the style sheet
  let known = new Map();
  const lookUp = (name) => {
    if (!known.has(name)) known.set(name, getComputedStyle(root).getPropertyValue(name).trim());
    return known.get(name);
  };
  const painted = (found) => {
    if (typeof found === "string") {
      const name = /^var\((--[\w-]+)\)$/.exec(found);
      return name ? lookUp(name[1]) : found;
    }
    if (Array.isArray(found)) return found.map(painted);
    if (found === null || typeof found !== "object") return found;
    return Object.fromEntries(Object.entries(found).map(([key, value]) => [key, painted(value)]));
  };

  // ---- plots
  const config = {
    responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    showSendToCloud: false, plotlyServerURL: "", // plotly's own default offers to send the figure away
  };
  const draw = (element) => {
    const { data, layout } = painted(plots.get(element)());
    element.style.height = `${layout.height}px`; // paper and other widths keep it
    return Plotly.react(element, data, layout, config);
  };
  const drawAll = () => {
    known = new Map();
    return Promise.all([...plots.keys()].map(draw));
  };

  // ---- themes
  const button = document.getElementById("theme");
  const setTheme = (dark) => {
    root.dataset.theme = dark ? "dark" : "light";
    button.setAttribute("aria-pressed", String(dark));
  };
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  setTheme(preferred.matches);
  preferred.addEventListener("change", (event) => { setTheme(event.matches); drawAll(); });
  button.addEventListener("click", () => { setTheme(root.dataset.theme !== "dark"); drawAll(); });

  // ---- numbers are open where there is no JavaScript, and on paper
  const folds = all("details");
  folds.forEach((fold) => { fold.open = false; });
  let before = null;
  addEventListener("beforeprint", () => {
    before = { theme: root.dataset.theme, open: folds.map((fold) => fold.open) };
    folds.forEach((fold) => { fold.open = true; });
    setTheme(false);
    drawAll();
  });
  matchMedia("print").addEventListener("change", () => plots.forEach((_, element) => Plotly.Plots.resize(element)));
  addEventListener("afterprint", () => {
    folds.forEach((fold, place) => { fold.open = before.open[place]; });
    setTheme(before.theme === "dark");
    drawAll();
  });

  // ---- tabs: arrows, Home and End move; the panel follows
  for (const list of all("[role=tablist]")) {
    const tabs = all("[role=tab]", list);
    const select = (chosen, focus) => {
      for (const tab of tabs) {
        const is = tab === chosen;
        tab.setAttribute("aria-selected", String(is));
        tab.tabIndex = is ? 0 : -1;
        document.getElementById(tab.getAttribute("aria-controls")).hidden = !is;
      }
      if (focus) chosen.focus();
    };
    list.addEventListener("click", (event) => {
      const tab = event.target.closest("[role=tab]");
      if (tab) select(tab, false);
    });
    list.addEventListener("keydown", (event) => {
      const place = tabs.indexOf(document.activeElement);
      const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (place < 0 || next === undefined) return;
      event.preventDefault();
      select(tabs[(next + tabs.length) % tabs.length], true);
    });
    select(tabs[0], false);
  }

  // ---- curves: one measure at a time, losses switched by the legend
  for (const place of all(".curves")) {
    const found = figures[`${place.dataset.group}-curves`];
    const buttons = all(".legend button", place);
    const element = place.querySelector(".plot");
    plots.set(element, () => {
      const measure = place.querySelector("input:checked").value;
      const off = new Set(buttons.filter((one) => one.getAttribute("aria-pressed") === "false").map((one) => one.dataset.name));
      const data = found.data.filter((trace) => trace.meta.measure === measure && !off.has(trace.meta.name));
      return { data, layout: { ...found.layouts[measure], hovermode: "x unified" } };
    });
    place.addEventListener("change", () => draw(element));
    for (const one of buttons) {
      one.addEventListener("click", () => {
        one.setAttribute("aria-pressed", String(one.getAttribute("aria-pressed") === "false"));
        draw(element);
      });
    }
  }

  // ---- figures that never change
  for (const element of all("[data-figure]")) {
    if (!plots.has(element)) plots.set(element, () => figures[element.dataset.figure]);
  }

  // ---- two runs side by side: neighbors, planes, confusion
  const tip = document.getElementById("tip");
  const ringed = (points, at) => ({
    x: at === null ? [] : [points.data[0].x[at]], y: at === null ? [] : [points.data[0].y[at]],
    type: "scatter", mode: "markers", hoverinfo: "skip",
    marker: { symbol: "circle-open", size: 18, color: "var(--ring)", line: { width: 2.5 } },
  });
  const showTip = (closer, at, name, event) => {
    const { sheet, labels, classes, numbers } = closer.points;
    const image = tip.querySelector(".image");
    image.hidden = !sheet;
    if (sheet) {
      const scale = 96 / sheet.side;
      image.style.width = image.style.height = "96px";
      image.style.backgroundImage = `url("${sheet.image}")`;
      image.style.backgroundSize = `${sheet.columns * 96}px ${sheet.rows * 96}px`;
      image.style.backgroundPosition = `-${(at % sheet.columns) * 96}px -${Math.floor(at / sheet.columns) * 96}px`;
      tip.classList.toggle("tiny", scale > 2.9);
    }
    const right = closer.runs[name].plane.right[at];
    tip.querySelector("p").textContent =
      `${classes[labels[at]]} (image ${numbers[at]}): nearest neighbor ${right ? "✓ right" : "✗ wrong"}`;
    tip.hidden = false;
    const left = Math.min(event.clientX + 16, innerWidth - tip.offsetWidth - 8);
    const top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8);
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(8, top)}px`;
  };

  const interactive = []; // planes, which listen once they are drawn
  for (const place of all(".closer")) {
    const closer = figures[`${place.dataset.group}-closer`];
    const names = Object.keys(closer.runs);
    const selects = all("select", place);
    const chosen = (side) => selects.find((one) => one.dataset.side === side)?.value ?? names[0];
    const planes = all("[data-plane]", place);
    let at = null;
    for (const element of planes) {
      const name = () => chosen(element.dataset.plane);
      plots.set(element, () => {
        const run = closer.runs[name()];
        const marker = {
          ...run.plane.data[0].marker,
          color: closer.points.labels.map((label) => `var(--class-${label % CLASSES})`),
          symbol: run.plane.right.map((right) => (right ? "circle" : "x-thin")),
          line: { width: run.plane.right.map((right) => (right ? 0 : 2)), color: closer.points.labels.map((label) => `var(--class-${label % CLASSES})`) },
        };
        return { data: [{ ...run.plane.data[0], marker }, ringed(run.plane, at)], layout: run.plane.layout };
      });
      const ring = (where) => {
        at = where;
        for (const one of planes) {
          const ring = painted(ringed(closer.runs[chosen(one.dataset.plane)].plane, at));
          Plotly.restyle(one, { x: [ring.x], y: [ring.y] }, [1]);
        }
      };
      interactive.push(() => {
        element.on("plotly_hover", (event) => {
          const point = event.points.find((one) => one.curveNumber === 0);
          if (!point) return;
          ring(point.pointIndex);
          showTip(closer, point.pointIndex, name(), event.event);
        });
        element.on("plotly_unhover", () => { tip.hidden = true; ring(null); });
      });
    }
    for (const element of all("[data-confusion]", place)) {
      plots.set(element, () => {
        const { data, layout } = closer.runs[chosen(element.dataset.confusion)].confusion;
        const scaled = (trace) => ({ ...trace, colorscale: [[0, "var(--paper)"], [1, `var(--${trace.meta.scale}-soft)`]] });
        return { data: data.map(scaled), layout };
      });
    }
    const arrange = () => {
      const shown = [...new Set([chosen("a"), chosen("b")])].slice(0, Math.max(1, selects.length));
      for (const side of all(".panel .side", place)) {
        side.hidden = !shown.includes(side.dataset.name);
        side.style.order = shown.indexOf(side.dataset.name);
      }
      for (const title of all("[data-heading]", place)) title.textContent = chosen(title.dataset.heading);
    };
    arrange();
    place.addEventListener("change", () => {
      arrange();
      all("[data-plane], [data-confusion]", place).forEach(draw);
    });
  }

  // ---- where the reader is
  const links = new Map(all(".contents a").map((link) => [link.hash.slice(1), link]));
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        links.forEach((link) => link.removeAttribute("aria-current"));
        links.get(entry.target.id)?.setAttribute("aria-current", "true");
      }
    }
  }, { rootMargin: "-10% 0px -75% 0px" });
  links.forEach((_, id) => { const section = document.getElementById(id); if (section) watcher.observe(section); });

  addEventListener("DOMContentLoaded", async () => {
    await drawAll();
    interactive.forEach((listen) => listen());
    root.dataset.ready = "true";
  });
})();
