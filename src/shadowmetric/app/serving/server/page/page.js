// The page: one search at a time. What is searched stands in the browser's history, so that back and forward work:
//   {trail: [{upload: 3, name: "photo.jpg"}, {key: "0f…", name: "Laysan Albatross", path: "…"}]}
// The last of the trail is the search that is shown. Uploads stay in this page's memory and go with it.

const at = (id) => document.getElementById(id);
const page = at("page"), hits = at("hits"), said = at("said"), trouble = at("trouble");
const KEPT_UPLOADS = 20, CRUMBS = 5, SMALL = 96;
const uploads = new Map(); // number -> {file, url}
let limits = { bytes: Infinity }, running = null, uploadNumber = 0, shown = null;

const number = (value) => value.toLocaleString("en-US");
const words = (name) => name.replaceAll("_", " ");
const classWords = (label) => words(label.replace(/^\d+\.(?=\p{L})/u, "")); // 001.Black_footed_Albatross
const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const several = (count, one, more) => `${number(count)} ${count === 1 ? one : more}`;

function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// ---- what is searched

function trail() { return history.state?.trail ?? []; }
function current() { return trail().at(-1); }

function addressOf(query) {
  const asked = new URLSearchParams();
  if (query?.key) asked.set("image", query.key);
  if (at("class").value) asked.set("class", at("class").value);
  if (at("count").value !== "12") asked.set("k", at("count").value);
  return asked.size ? `/?${asked}` : "/";
}

function go(queries) { // a new entry of the history, and its search
  history.pushState({ trail: queries.slice(-50) }, "", addressOf(queries.at(-1)));
  search();
}

function upload(file) {
  if (!file) return;
  uploadNumber = Math.max(uploadNumber, ...uploads.keys(), 0) + 1;
  uploads.set(uploadNumber, { file, url: URL.createObjectURL(file) });
  for (const [old, { url }] of uploads) {
    if (uploads.size <= KEPT_UPLOADS) break;
    URL.revokeObjectURL(url);
    uploads.delete(old);
  }
  go([{ upload: uploadNumber, name: file.name ? words(file.name) : "Your image" }]);
}

// ---- asking the server

class Trouble extends Error {
  constructor(text, again = false) { super(text); this.again = again; }
}

async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch (wrong) {
    if (wrong.name === "AbortError") throw wrong;
    throw new Trouble("The server does not answer. It may have been stopped; start it, then try again.", true);
  }
  if (answer.ok) return answer.json();
  const detail = await answer.json().then((found) => found.detail, () => "");
  if (detail.startsWith("no image has the class")) throw new Trouble(`No image has the class “${at("class").value}”. Type a part of its name and choose one of the suggestions.`);
  if (answer.status === 503) throw new Trouble("The server is busy. Try again in a moment.", true);
  if (answer.status >= 500) throw new Trouble("The server failed; its log says why.", true);
  throw new Trouble(sentence(detail || `The server refused this (${answer.status}).`), answer.status === 408);
}

function asked(query, signal) {
  const wanted = new URLSearchParams({ k: at("count").value });
  if (at("class").value) wanted.set("class", at("class").value);
  if (query.key) return ask(`/api/images/${query.key}/neighbors?${wanted}`, { signal });
  const kept = uploads.get(query.upload);
  if (!kept) throw new Trouble("Images are not kept when the page is left. Choose it again.");
  if (kept.file.size === 0) throw new Trouble("This file is empty. Choose another.");
  if (kept.file.size > limits.bytes) {
    throw new Trouble(`This image has ${(kept.file.size / 1e6).toFixed(1)} MB; the most is ${limits.bytes / 1e6} MB. Choose a smaller one.`);
  }
  return ask(`/api/search?${wanted}`, { method: "POST", body: kept.file, signal, headers: { "Content-Type": "application/octet-stream" } });
}

async function search() {
  running?.abort();
  const mine = (running = new AbortController());
  const query = current();
  drawQuery(query);
  drawTrail();
  if (!query) return drawNothing();
  busy(true);
  try {
    const found = await asked(query, mine.signal);
    if (mine === running) drawHits(found);
  } catch (wrong) {
    if (mine === running && wrong.name !== "AbortError") drawTrouble(wrong);
  }
  if (mine === running) busy(false);
}

// ---- drawing

function busy(whether) {
  hits.setAttribute("aria-busy", String(whether));
  page.dataset.busy = String(whether);
  if (!whether) return;
  trouble.hidden = true;
  said.textContent = "Searching…";
  if (!hits.children.length) {
    const ghost = () => make("li", { className: "ghost" }, make("span", { className: "frame" }));
    hits.replaceChildren(...Array.from({ length: 8 }, ghost));
  }
}

function drawNothing() {
  page.dataset.state = "empty";
  page.dataset.busy = "false";
  shown = null;
  hits.replaceChildren();
  said.textContent = "";
  drawVerdict(null);
  trouble.hidden = true;
  document.title = "Search by image";
}

function drawTrouble(wrong) {
  hits.replaceChildren();
  said.textContent = "";
  drawVerdict(null);
  trouble.hidden = false;
  trouble.querySelector("p").textContent = wrong instanceof Trouble ? wrong.message : "Something went wrong on this page; load it again.";
  at("again").hidden = !wrong.again;
  trouble.scrollIntoView({ block: "nearest" });
}

function imageOf(query, side) {
  return query.key ? `/api/images/${query.key}?side=${side}` : uploads.get(query.upload)?.url;
}

function drawQuery(query) {
  at("asked").hidden = !query;
  at("choose-words").textContent = query ? "Another image" : "Choose an image";
  if (!query) return;
  page.dataset.state = "asked";
  const preview = at("preview"), source = imageOf(query, 512);
  preview.hidden = !source;
  if (source) preview.src = source;
  preview.alt = `What is searched for: ${query.name}`;
  at("asked-name").replaceChildren(query.name, make("small", { textContent: query.key ? query.path ?? "" : "Your image" }));
  document.title = `${query.name} – search by image`;
}

at("preview").addEventListener("error", () => { at("preview").hidden = true; }); // the server says what it is instead

function drawTrail() {
  const queries = trail(), list = at("trail").querySelector("ol");
  at("trail").hidden = queries.length < 2;
  const first = Math.max(0, queries.length - CRUMBS);
  const crumbs = queries.slice(first).map((query, place) => {
    const back = first + place - (queries.length - 1), source = imageOf(query, 64);
    const crumb = make("button", { type: "button", className: "crumb", title: query.name });
    if (source) {
      const small = make("img", { src: source, alt: "" });
      small.addEventListener("error", () => small.remove());
      crumb.append(small);
    }
    crumb.append(make("span", { textContent: query.name }));
    if (back === 0) crumb.setAttribute("aria-current", "page");
    else crumb.addEventListener("click", () => history.go(back));
    return make("li", {}, crumb);
  });
  list.replaceChildren(...(first ? [make("li", {}, make("span", { className: "earlier", textContent: `${first} before` }))] : []), ...crumbs);
}

function drawVerdict(told) { // of an upload: its class, or that it shows nothing that is here
  const line = at("verdict"), best = told?.classes[0];
  line.hidden = !told || (told.in_catalog !== false && !best);
  if (line.hidden) return;
  line.dataset.unknown = String(told.in_catalog === false);
  line.title = sentence(told.words);
  if (told.in_catalog === false) line.replaceChildren("Not in the catalog", make("small", { textContent: `nothing here is near enough; ${percent(told.known_reject_rate)} of the images that are meant are refused so` }));
  else line.replaceChildren(classWords(best.label), make("small", { textContent: `${percent(best.share)} of the vote of the nearest` }));
}

function drawHits({ hits: found, milliseconds, verdict }) {
  drawVerdict(verdict);
  const took = Object.values(milliseconds).reduce((sum, part) => sum + part, 0);
  trouble.hidden = true;
  hits.replaceChildren(...found.map(drawHit));
  said.replaceChildren(summary(found), make("small", { textContent: `${took < 10 ? took.toFixed(1) : Math.round(took)} ms` }));
  shown = found;
}

function summary(found) {
  if (!found.length) return "No neighbors: the index has no other image here.";
  const neighbors = several(found.length, "neighbor", "neighbors");
  const counts = new Map();
  for (const { label } of found) if (label !== null) counts.set(label, (counts.get(label) ?? 0) + 1);
  const [label, count] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? [null, 0];
  if (label === null) return `${neighbors}.`;
  if (count === found.length) return found.length === 1 ? `1 neighbor, ${classWords(label)}.` : `${neighbors}, all ${classWords(label)}.`;
  return count > 1 ? `${neighbors}; ${number(count)} are ${classWords(label)}.` : `${neighbors}, each of another class.`;
}

const fileOf = (hit) => hit.path.split("/").at(-1);

function drawHit(hit) {
  const name = hit.label === null ? fileOf(hit) : classWords(hit.label);
  const image = make("img", { alt: "", decoding: "async", draggable: false });
  const frame = make("span", { className: "frame" }, image);
  let tries = 0;
  image.addEventListener("load", () => image.classList.toggle("small", Math.max(image.naturalWidth, image.naturalHeight) < SMALL));
  image.addEventListener("error", () => {
    if (++tries === 1) setTimeout(() => { image.src = `${hit.image}?side=384&again=1`; }, 1500); // the server may be busy
    else { image.remove(); frame.append(make("span", { className: "missing", textContent: "This image cannot be shown." })); }
  });
  image.src = `${hit.image}?side=384`;
  const bar = make("span", { className: "bar" });
  bar.style.setProperty("--share", Math.max(0, hit.similarity));
  const scale = make("span", { className: "scale" }, bar, make("span", { textContent: hit.similarity.toFixed(3) }));
  const link = make("a", { className: "hit", href: addressOf(hit), title: hit.path, draggable: false },
    frame, scale, make("span", { className: "name", textContent: name }));
  if (hit.label !== null) link.append(make("span", { className: "path", textContent: fileOf(hit) }));
  link.setAttribute("aria-label", `${name}, similarity ${hit.similarity.toFixed(3)}. Search on from this image.`);
  link.addEventListener("click", (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return; // a tab of its own
    event.preventDefault();
    go([...trail(), { key: hit.key, name, path: hit.path }]);
    scrollTo(0, 0);
    at("results").focus({ preventScroll: true });
  });
  return make("li", {}, link);
}

function drawIndex(index) {
  limits = index.limits;
  const classes = index.classes_in_all ? `, ${several(index.classes_in_all, "class", "classes")}` : "";
  at("about").textContent = `${several(index.images, "image", "images")}${classes}`;
  at("limits").textContent = `Up to ${number(limits.bytes / 1e6)} MB. It is not stored.`;
  at("class-field").hidden = index.classes_in_all === 0;
  const told = Object.entries(index.trained);
  const rows = [...told, ...("dim" in index.trained ? [] : [["dim", number(index.dim)]]), ["shadowmetric", index.version]];
  at("story").replaceChildren(...rows.flatMap(([name, value]) => [make("dt", { textContent: words(name) }), make("dd", { textContent: value })]));
  suggest(index.classes);
}

function suggest(classes) {
  at("classes").replaceChildren(...classes.map(({ name, images }) => make("option", { value: name, label: several(images, "image", "images") })));
}

// ---- what people do

function changed() { // the filter or the number: the same entry of the history, searched again
  at("clear").hidden = !at("class").value;
  history.replaceState(history.state, "", addressOf(current()));
  if (current()) search();
}

let typing = 0;
at("class").addEventListener("input", () => {
  clearTimeout(typing);
  at("clear").hidden = !at("class").value;
  typing = setTimeout(async () => {
    const text = at("class").value.slice(0, 200);
    try {
      suggest((await ask(`/api/index?${new URLSearchParams({ contains: text, limit: 30 })}`)).classes);
    } catch { /* suggestions can wait; a search says what is wrong */ }
  }, 150);
});
at("class").addEventListener("change", changed);
at("count").addEventListener("change", changed);
at("controls").addEventListener("submit", (event) => { event.preventDefault(); at("class").blur(); });
at("clear").addEventListener("click", () => { at("class").value = ""; at("class").dispatchEvent(new Event("input")); changed(); at("class").focus(); });
at("again").addEventListener("click", () => (limits.bytes === Infinity ? begin() : search()));
at("home").addEventListener("click", (event) => { event.preventDefault(); at("class").value = ""; at("clear").hidden = true; go([]); });
for (const id of ["choose", "photograph"]) {
  at(id).addEventListener("change", (event) => { upload(event.target.files[0]); event.target.value = ""; });
}
document.addEventListener("paste", (event) => {
  const file = [...(event.clipboardData?.files ?? [])][0];
  if (file) { event.preventDefault(); upload(file); }
});
let depth = 0; // of elements that a drag has entered
const holdsFile = (event) => event.dataTransfer?.types.includes("Files");
const dragging = (change) => { depth = Math.max(0, depth + change); document.body.classList.toggle("dragging", depth > 0); };
document.addEventListener("dragenter", (event) => holdsFile(event) && dragging(1));
document.addEventListener("dragleave", (event) => holdsFile(event) && dragging(-1));
document.addEventListener("dragover", (event) => holdsFile(event) && event.preventDefault());
document.addEventListener("drop", (event) => {
  if (!holdsFile(event)) return;
  event.preventDefault();
  dragging(-depth);
  upload(event.dataTransfer.files[0]);
});
hits.addEventListener("keydown", (event) => {
  const links = [...hits.querySelectorAll("a")], here = links.indexOf(document.activeElement);
  const top = (link) => link.getBoundingClientRect().top;
  const columns = links.filter((link) => top(link) === top(links[0])).length;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  if (here < 0 || !step || !links[here + step]) return;
  event.preventDefault();
  links[here + step].focus();
});

function fromAddress() {
  const given = new URLSearchParams(location.search);
  at("class").value = given.get("class") ?? "";
  at("clear").hidden = !at("class").value;
  const wanted = given.get("k") ?? "12";
  at("count").value = [...at("count").options].some(({ value }) => value === wanted) ? wanted : "12";
  const key = given.get("image");
  if (!history.state && /^[0-9a-f]{32}$/.test(key ?? "")) history.replaceState({ trail: [{ key, name: "An image of the index" }] }, "");
}
window.addEventListener("popstate", () => { fromAddress(); search(); });

async function begin() {
  fromAddress();
  try {
    drawIndex(await ask("/api/index?limit=30"));
    await search();
  } catch (wrong) {
    drawTrouble(wrong);
  }
  document.documentElement.dataset.ready = "true";
}

begin();
