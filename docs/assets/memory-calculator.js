// The calculator of memory.html: evaluates what memory-formulas.js holds, as Bytes.at and Cost.peak do in ops/memory.py.
(() => {
  "use strict";
  const FORMULAS = window.MEMORY_FORMULAS;
  const form = document.getElementById("memory-calculator");
  if (!form || !FORMULAS) return;
  const field = (name) => form.elements[name];
  const answer = (name) => form.querySelector(`[data-answer="${name}"]`);
  const trouble = form.querySelector(".calculator-trouble");
  const MINERS = { semi_hard: "semi-hard", hard: "hard", batch_hard: "batch-hard", all: "all triplets" };

  // A coefficient, or the one of this scratch.
  const number = (sum, name, scratch) => {
    const found = sum[name] ?? 0;
    return Array.isArray(found) ? found[scratch] : found;
  };

  const counts = (given, centersOfClass) => {
    const whole = Math.floor(given.rows / given.per_class);
    const rest = given.rows % given.per_class;
    const centers = centersOfClass * given.classes;
    return {
      row: given.rows,
      reference: given.rows,
      positive: whole * given.per_class * (given.per_class - 1) + rest * (rest - 1),
      triplet: 0,
      center: centers,
      number: given.rows * given.dim,
      reference_number: given.rows * given.dim,
      center_number: centers * given.dim,
      row_class: given.rows * Math.min(given.rows, centers),
      dim: given.dim,
    };
  };

  const bytes = (sum, scratch, count) => {
    const blocks = Math.max(
      number(sum, "scratch", scratch),
      number(sum, "thinnest", scratch) * (count[sum.columns] ?? 0),
    );
    const units = Object.keys(FORMULAS.units).reduce((all, unit) => all + number(sum, unit, scratch) * count[unit], 0);
    const few = count.positive <= FORMULAS.pairs_of_a_row * count.row ? count.positive : 0;
    const rows = Math.max(count.row, few, FORMULAS.pairs_of_a_row * count.center);
    const made = number(sum, "made", scratch) * Math.min(count.dim * rows, FORMULAS.at_once);
    const gathered = number(sum, "gathered", scratch) * Math.min(2 * count.dim * count.positive, FORMULAS.at_once);
    return Math.trunc(FORMULAS.small + blocks + number(sum, "fixed", scratch) + made + gathered + units);
  };

  const general = (value, digits) => String(Number(value.toPrecision(digits)));

  const saidBytes = (value) => {
    if (value >= 2 ** 20) return `${general(value / 2 ** 20, 4)} MiB`;
    if (value >= 2 ** 10) return `${general(value / 2 ** 10, 4)} KiB`;
    return `${general(value, 6)} bytes`;
  };

  const saidFormula = (sum, scratch) => {
    const at = (name) => number(sum, name, scratch);
    let blocks = at("scratch") ? saidBytes(at("scratch")) : "";
    if (at("thinnest")) blocks = `max(${blocks}, ${general(at("thinnest"), 6)} ${FORMULAS.units[sum.columns]})`;
    const fixed = at("fixed") + (at("made") + at("gathered")) * FORMULAS.at_once;
    const parts = [blocks, fixed ? saidBytes(fixed) : ""];
    for (const [unit, letter] of Object.entries(FORMULAS.units)) {
      if (at(unit)) parts.push(`${general(at(unit), 6)} ${letter}`);
    }
    return parts.filter(Boolean).join(" + ") || saidBytes(FORMULAS.small);
  };

  const saidPeak = (phases, scratch) => {
    const said = [...new Set(phases.map((phase) => saidFormula(phase, scratch)))];
    return said.length === 1 ? said[0] : `the largest of ${said.join("; ")}`;
  };

  // Three digits in units of 1,000, and the exact bytes for whoever points at them.
  const show = (place, value) => {
    const units = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB"];
    let [size, unit] = [value, 0];
    while (size >= 999.5 && unit < units.length - 1) [size, unit] = [size / 1000, unit + 1];
    place.textContent = `${unit === 0 || size >= 99.95 ? Math.round(size) : general(size, 3)} ${units[unit]}`;
    place.dataset.bytes = String(value);
    place.title = `${value.toLocaleString("en")} bytes`;
  };

  const fill = (select, options, chosen) => {
    select.replaceChildren(...options.map(([value, words]) => new Option(words, value, false, value === chosen)));
  };

  const chooseMiners = () => {
    const loss = FORMULAS.losses[field("loss").value];
    const names = Object.keys(loss.miners);
    const before = field("miner").value;
    const wanted = names.includes(before) ? before : names.includes("semi_hard") ? "semi_hard" : names[0];
    fill(field("miner"), names.map((name) => [name, MINERS[name] ?? (loss.centers > 0 ? "none: rows and centers" : "none: every pair")]), wanted);
    field("miner").disabled = names.length === 1;
    field("classes").disabled = loss.centers === 0;
  };

  const calculate = () => {
    const wrong = ["rows", "dim", "per_class", "classes"].map(field).find((input) => !input.disabled && !input.validity.valid);
    trouble.hidden = !wrong;
    form.querySelectorAll("[data-answer]").forEach((place) => {
      place.textContent = wrong ? "–" : "";
      delete place.dataset.bytes;
    });
    if (wrong) {
      const name = wrong.labels[0].textContent;
      trouble.textContent = `${name}: give a whole number from ${wrong.min} to ${Number(wrong.max).toLocaleString("en")}.`;
      return;
    }
    const given = Object.fromEntries(["rows", "dim", "per_class", "classes"].map((name) => [name, Number(field(name).value)]));
    const loss = FORMULAS.losses[field("loss").value];
    const { kept, phases } = loss.miners[field("miner").value][field("dtype").value];
    const scratch = FORMULAS.scratches.indexOf(Number(field("scratch").value));
    const count = counts(given, loss.centers);
    const width = FORMULAS.widths[field("dtype").value];
    show(answer("kept"), bytes(kept, scratch, count));
    show(answer("peak"), Math.max(...phases.map((phase) => bytes(phase, scratch, count))));
    show(answer("rows"), width * given.rows * given.dim);
    show(answer("square"), width * given.rows ** 2);
    show(answer("cube"), given.rows ** 3);
    answer("kept_formula").textContent = saidFormula(kept, scratch);
    answer("peak_formula").textContent = saidPeak(phases, scratch);
  };

  fill(field("loss"), Object.entries(FORMULAS.losses).map(([name, loss]) => [name, loss.title]), "shadow");
  fill(field("dtype"), Object.keys(FORMULAS.widths).map((name) => [name, name]), "float32");
  fill(field("scratch"), FORMULAS.scratches.map((size) => [String(size), `${size} MiB`]), "32");
  chooseMiners();
  calculate();
  field("loss").addEventListener("change", chooseMiners);
  form.addEventListener("input", calculate);
  form.addEventListener("change", calculate);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  document.getElementById("memory-without").hidden = true;
  form.dataset.ready = "true";
})();
