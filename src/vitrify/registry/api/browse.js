// From here on the page itself.

const find = (id) => document.getElementById(id);
let shown = 0;

function node(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "click") made.addEventListener("click", value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

const to = (text, ...parts) => node("a", { href: link(...parts) }, text);
const badge = (text) => node("span", { class: `badge ${text.replace(" ", "-")}` }, text);
const code = (text) => node("code", {}, text);
const short = (digest) => node("code", { title: digest, class: "short" }, digest.slice(0, 19));
const versionOf = (one) => to(`${one.model}:${one.version}`, "version", one.model, one.version);
const timed = (text) => (text ? node("time", { datetime: text }, when(text)) : "");

class Refused extends Error {}

// What the registry answers with leaves out what is empty.
async function ask(path, { method = "GET", body, ...query } = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const headers = { accept: "application/json" };
  const token = sessionStorage.getItem("token");
  if (token) headers.authorization = `Bearer ${token}`;
  if (body) headers["content-type"] = "application/json";
  const address = "v1/" + path + (given.length ? "?" + new URLSearchParams(given) : "");
  const options = { method, headers, credentials: "omit", cache: "no-store", body: body && JSON.stringify(body) };
  const answer = await fetch(address, options).catch(() => { throw new Refused("the server cannot be reached"); });
  if (answer.ok) return answer.json();
  const said = await answer.json().catch(() => ({ message: `the server answered ${answer.status}` }));
  const error = new Refused([said.message, said.remedy].filter(Boolean).join("\n"));
  error.status = answer.status;
  error.report = said.report;
  throw error;
}

const models = (name, ...rest) => ["models/" + encodeURIComponent(name), ...rest.map(encodeURIComponent)].join("/");

// A cell is text, a number, a node, several of them, or `{ mark, value }`: a value with a class of its own.
function cell(value) {
  const { mark, value: shown } = value && value.mark ? value : { value };
  const long = (typeof shown === "string" && shown.length > 30) || (Array.isArray(shown) && shown.length);
  const classes = [mark, typeof shown === "number" ? "number" : long ? "wide" : ""].filter(Boolean).join(" ");
  return node("td", { class: classes || undefined }, shown instanceof Node || Array.isArray(shown) ? shown : figure(shown));
}

const numeric = (value) => typeof value === "number" || Boolean(value) && value.mark === "number";

function table(header, rows, none, kind) {
  if (!rows.length) return node("p", { class: "none" }, none);
  return node("div", { class: "scroll", tabindex: 0 }, node("table", { class: kind },
    node("thead", {}, node("tr", {}, header.map((text, at) => (
      node("th", { scope: "col", class: rows.some((row) => numeric(row[at])) ? "number" : undefined }, text))))),
    node("tbody", {}, rows.map((row) => node("tr", {}, row.map(cell))))));
}

function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== "" && value !== undefined && value !== null && value.length !== 0);
  return node("dl", { class: "facts" }, known.map(([name, value]) => [node("dt", {}, name), node("dd", {}, value)]));
}

const section = (title, ...children) => node("section", {}, node("h3", {}, title), ...children);
const pairs = (found) => Object.entries(found || {}).map(([name, value]) => [name, figure(value)]);
const numbers = (found) => Object.entries(found || {});
const COLUMNS = 6; // metrics in a list of versions; the comparison has all

// A list of versions; `of` is their model and the set of those that are marked, where all are of one.
function versionsTable(versions, none, of) {
  const all = [...new Set(versions.flatMap((one) => Object.keys(one.metrics || {})))].sort(), metrics = all.slice(0, COLUMNS);
  const named = (name) => node("span", { title: name }, middle(name, 20));
  const best = (name) => to(named(name), "search", `name = ${quoted(of.name)} order by metrics.${quoted(name)} desc`);
  const box = (one) => {
    const made = node("input", { type: "checkbox", "aria-label": `compare ${one.version}`, checked: of.marked.has(one.version) });
    made.addEventListener("change", () => (made.checked ? of.marked.add(one.version) : of.marked.delete(one.version)));
    return made;
  };
  const shown = (value) => node("span", { title: figure(value) }, rounded(value));
  const rows = versions.map((one) => [
    ...(of ? [box(one), to(one.version, "version", one.model, one.version)] : [versionOf(one)]),
    badge(one.stage), one.status === "active" ? "" : badge(one.status), { mark: "wide", value: (one.aliases || []).join(", ") },
    ...metrics.map((name) => ({ mark: "number", value: shown((one.metrics || {})[name]) })), one.author, timed(one.created),
  ]);
  const header = [...(of ? [""] : []), "version", "stage", "status", "aliases", ...metrics.map(of ? best : named), "author", "registered"];
  const left = all.length - metrics.length;
  return [table(header, rows, none), left ? node("p", { class: "soft" }, `${left} more metrics are on each version's page.`) : ""];
}

// What comes in pages: the first, and a button for the next, which is drawn together with all before it.
async function more(get, draw) {
  const place = node("div"), all = [];
  const go = async (after) => {
    const page = await get(after);
    all.push(...page.items);
    const button = node("button", { type: "button", click: () => { button.disabled = true; go(page.next).catch(refused); } }, "More");
    place.replaceChildren(...[draw(all), page.next ? node("p", {}, button) : ""].flat(Infinity));
  };
  const refused = (error) => {
    if (!(error instanceof Refused)) throw error;
    place.lastChild.replaceWith(complaint(error.message));
  };
  await go();
  return place;
}

const complaint = (text) => node("p", { class: "bad", role: "alert" }, text);

async function showModels(name = "") {
  const filter = node("input", { id: "filter", value: name, placeholder: "risk/*", spellcheck: "false" });
  const form = node("form", {}, node("label", { for: "filter" }, "Names like"), filter, node("button", { type: "submit" }, "Filter"));
  form.addEventListener("submit", (event) => { event.preventDefault(); location.hash = link("models", filter.value.trim()); });
  const wanted = name && !/[*?]/.test(name) ? `*${name}*` : name;
  const place = await more(
    async (after) => { const page = await ask("models", { limit: 100, after, name: wanted }); return { items: page.models, next: page.next }; },
    (all) => table(["model", "production", "versions", "owner", "licence", "changed"], all.map((one) => [
      { mark: "wide", value: to(one.name, "model", one.name) },
      one.production ? to(one.production, "version", one.name, one.production) : "",
      one.versions || 0, one.owner, one.licence, timed(one.updated),
    ]), name ? "No model has such a name." : "No model is registered yet: vitrify register NAME MODEL:VERSION"));
  return [node("h2", {}, "Models"), form, place];
}

async function versionsOf(query, draw) {
  return more(async (after) => { const page = await ask("versions", { query, limit: 100, after }); return { items: page.versions, next: page.next }; }, draw);
}

async function showSearch(query) {
  return [node("h2", {}, "Versions ", node("span", { class: "soft" }, query)), await versionsOf(query, (all) => versionsTable(all, "No version fits."))];
}

async function showModel(name) {
  const of = { name, marked: new Set() };
  const [model, open, events, place] = await Promise.all([
    ask(models(name)), ask("promotions", { model: name, state: "open" }), latest(name),
    versionsOf(`name = ${quoted(name)} order by number desc`, (all) => versionsTable(all, "It has no version.", of)),
  ]);
  const back = () => question(`Put the version that was in production before back into production of ${name}?`,
    (comment) => ask(models(name, "rollback"), { method: "POST", body: { comment } }));
  const compare = () => { if (of.marked.size > 1) location.hash = link("compare", name, ...of.marked); };
  return [
    node("h2", {}, name, " ", model.production ? node("span", { class: "soft" }, "in production: ", to(model.production, "version", name, model.production)) : ""),
    model.description ? node("p", { class: "text" }, model.description) : null,
    facts([["owner", model.owner], ["licence", model.licence], ["created", when(model.created)], ...pairs(model.tags)]),
    section("Versions", place, node("p", { class: "row" },
      node("button", { type: "button", click: compare }, "Compare those marked"),
      model.production ? node("button", { type: "button", click: back }, "Roll back") : "")),
    section("Open requests", promotions(open.promotions, "Nobody asks for anything.")),
    section("What happened last", eventsTable(events)),
  ];
}

function policyTable({ allowed, report }) {
  const rows = (report.findings || []).map((one) => [one.place, one.message, one.remedy]);
  const answer = node("span", { class: `badge ${allowed ? "clean" : "found"}` }, allowed ? "yes" : "not yet");
  return [node("p", {}, answer), table(["place", "what is missing", "what to do"], rows, "Nothing is missing.")];
}

// What the statements about each form of a version say. Their signatures are what the policy asks for; here nobody checks them.
function evidenceTable(statements) {
  const rows = statements.map(([form, one]) => {
    let read = { keys: [], verdict: "", predicate: one.content };
    try { read = said(one.content); } catch { /* shown as it came */ }
    const whole = typeof read.predicate === "string" ? read.predicate : JSON.stringify(read.predicate, null, 2);
    return [
      node("span", { title: form.digest }, form.format || middle(form.digest, 20)),
      { mark: "wide", value: node("details", {}, node("summary", {}, predicate(one)), node("pre", {}, whole)) },
      read.verdict ? badge(read.verdict) : "", read.keys.length ? read.keys.map((key) => node("div", {}, middle(key, 24))) : "nobody",
      one.by, timed(one.created), short(one.digest),
    ];
  });
  return table(["about", "kind", "says", "signed by, it says", "attached by", "when", "digest"], rows, "Nothing was attested.");
}

function predicate(one) {
  const kind = one.predicateType || "", parts = kind.split(/[/:]/).filter(Boolean);
  return node("span", { title: kind }, parts.slice(-2).join(" "));
}

async function showVersion(name, which) {
  const [one, model] = await Promise.all([ask(models(name, "versions", which)), ask(models(name))]);
  const [policy, lineage, evidence] = await Promise.all([
    part(ask(models(name, "versions", one.version, "policy"), { action: "promote:production" }), policyTable),
    part(ask("lineage/" + encodeURIComponent(`version:${one.model}:${one.version}`)), drawing),
    part(Promise.all(one.variants.map((form) => ask("attestations/" + encodeURIComponent(form.digest)))), (found) => evidenceTable(
      found.flatMap(({ attestations }, at) => attestations.map((statement) => [one.variants[at], statement])))),
  ]);
  const call = (body, ...rest) => (comment) => ask(models(name, "versions", one.version, ...rest), { method: "POST", body: { ...body, stage: "production", comment } });
  const spoken = `${name}:${one.version}`, there = model.production;
  // Whoever was overtaken since this page was drawn is refused, and does not undo what another did.
  const promote = call({ expected: there || "" }, "promote"), now = there ? ` ${there}, which is there now, will be archived.` : "";
  const entries = (title, field, header) => (
    Object.keys(one[field] || {}).length ? section(title, table(["name", header], numbers(one[field]), "", "narrow")) : null);
  return [
    node("h2", {}, to(name, "model", name), ` : ${one.version} `, badge(one.stage), " ", one.status === "active" ? "" : badge(one.status)),
    one.reason ? node("p", { class: "bad text" }, one.reason) : null,
    one.description ? node("p", { class: "text" }, one.description) : null,
    one.stage === "production" || one.status !== "active" ? null : node("p", { class: "row" },
      node("button", { type: "button", click: () => question(`Put ${spoken} into production?${now}`, promote) }, "Promote to production"),
      node("button", { type: "button", click: () => question(`Ask for ${spoken} to be put into production?`, call({}, "promotions")) }, "Ask for promotion")),
    facts([
      ["artifact", code(one.digest)], ["aliases", (one.aliases || []).join(", ")], ["registered", `${when(one.created)} by ${one.author}`],
      ["commit", one.commit], ["run", one.run], ...pairs(one.tags),
    ]),
    section("Forms", table(["format", "artifact", ""], one.variants.map((form, at) => [form.format || "unknown", code(form.digest), at ? "" : "the source"]), "")),
    entries("Metrics", "metrics", "value"), entries("Parameters", "parameters", "value"), entries("Data", "datasets", "digest or place"),
    section("May it go into production?", policy),
    section("Evidence", evidence), section("Lineage", lineage),
    one.card ? section("Model card", node("pre", {}, one.card)) : null,
  ];
}

// A part of a page; where the registry refuses it, that stands in its place, and the rest is there.
async function part(answer, draw) {
  try {
    return draw(await answer);
  } catch (error) {
    if (!(error instanceof Refused) || error.status === 401) throw error;
    return complaint(error.message);
  }
}

function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function drawing(lineage) {
  const places = new Map(placed(lineage.nodes, lineage.edges).map((place) => [place.id, place]));
  const all = [...places.values()];
  const width = Math.max(...all.map((place) => place.x)) + WIDE + 20, height = Math.max(...all.map((place) => place.y)) + 2 * HIGH + 20;
  const arrows = lineage.edges.map((edge) => {
    const from = places.get(edge.source), end = places.get(edge.target);
    const x = from.x + WIDE, y = from.y + HIGH, half = (end.x - x) / 2;
    const path = svg("path", { d: `M ${x} ${y} c ${half} 0 ${half} ${end.y - from.y} ${end.x - x} ${end.y - from.y}`, "marker-end": "url(#arrow)" });
    path.append(svg("title", {}, edge.kind));
    return path;
  });
  const boxes = lineage.nodes.map((one) => {
    const { x, y } = places.get(one.id), about = one.facts || {};
    const state = about.running === false ? "ended" : about.status && about.status !== "active" ? about.status : about.stage;
    const inner = svg("svg", { width: WIDE - 10, height: 2 * HIGH }, // which cuts off what is too wide
      svg("text", { x: 10, y: 18, class: "kind" }, [one.kind, state].filter(Boolean).join(", ")), svg("text", { x: 10, y: 38 }, middle(one.label || "", 28)));
    const box = svg("g", { transform: `translate(${x} ${y})`, class: one.id === lineage.root ? "root" : "" },
      svg("rect", { width: WIDE, height: 2 * HIGH, rx: 8 }), inner, svg("title", {}, one.id));
    const [, model, version] = one.id.match(/^version:([^:]*):(.*)$/) || [];
    return model && one.id !== lineage.root ? svg("a", { href: link("version", model, version) }, box) : box;
  });
  const head = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M 0 0 L 8 4 L 0 8" }));
  const whole = svg("svg", { class: "lineage", width, height, viewBox: `-10 -10 ${width} ${height}`, role: "img", "aria-label": `Lineage of ${lineage.root}` },
    svg("defs", {}, head), ...arrows, ...boxes);
  return node("div", { class: "scroll tall", tabindex: 0 }, whole);
}

async function showCompared(name, ...which) {
  const versions = await Promise.all(which.map((one) => ask(models(name, "versions", one))));
  const part = (title, field) => {
    const rows = compared(versions, field);
    return rows.length ? section(title, table(["", ...which], rows.map((row) => [row.name, ...row.values.map((value) => (
      row.differ ? { mark: "other", value: figure(value) } : figure(value)))]), "", "compared")) : null;
  };
  return [
    node("h2", {}, to(name, "model", name), " ", node("span", { class: "soft" }, `${which.length} versions`)),
    section("Versions", table(["", ...versions.map((one) => to(one.version, "version", name, one.version))], [
      ["stage", ...versions.map((one) => badge(one.stage))], ["artifact", ...versions.map((one) => short(one.digest))],
      ["author", ...versions.map((one) => one.author)], ["registered", ...versions.map((one) => timed(one.created))],
      ["commit", ...versions.map((one) => one.commit && code(one.commit))],
    ], "", "compared")),
    part("Metrics", "metrics"), part("Parameters", "parameters"), part("Data", "datasets"), part("Tags", "tags"),
  ];
}

function promotions(found, none) {
  const decide = (one, verdict) => () => question(`${verdict === "approve" ? "Approve" : "Reject"} ${one.model}:${one.version} for ${one.stage}?`,
    (comment) => ask(`promotions/${one.id}/decisions`, { method: "POST", body: { verdict, comment } }));
  return table(["request", "for", "", "by", "says", "decisions", "still missing", "expires"], found.map((one) => [
    { mark: "wide", value: versionOf(one) }, badge(one.stage),
    one.state !== "open" ? badge(one.state) : node("span", { class: "row" },
      node("button", { type: "button", click: decide(one, "approve") }, "Approve"),
      node("button", { type: "button", click: decide(one, "reject") }, "Reject")),
    one.author, one.comment,
    (one.decisions || []).map((said) => node("div", {}, `${said.who}: ${said.verdict}${said.comment ? `, ${said.comment}` : ""}`)),
    (one.missing || []).map((text) => node("div", {}, text)), timed(one.expires),
  ]), none);
}

const LISTED = 100;

async function showPromotions() {
  const [open, all] = await Promise.all([ask("promotions", { state: "open", limit: LISTED }), ask("promotions", { limit: LISTED })]);
  const ended = all.promotions.filter((one) => one.state !== "open");
  const capped = (found) => (found.promotions.length === LISTED ? node("p", { class: "soft" }, `Looked at: the newest ${LISTED}.`) : "");
  return [
    node("h2", {}, "Promotions"), section("Open", promotions(open.promotions, "Nobody asks for anything."), capped(open)),
    section("Ended", promotions(ended, "None yet."), capped(all)),
  ];
}

function eventsTable(events) {
  return table(["number", "time", "who", "what", "which", "facts", "hash"], events.map((one) => [
    one.seq, timed(one.time), one.actor, one.kind,
    { mark: "wide", value: one.version ? versionOf(one) : one.model ? to(one.model, "model", one.model) : "" },
    { mark: "wide", value: brief(one.facts) }, node("code", { title: one.hash, class: "short" }, one.hash.slice(0, 12)),
  ]), "Nothing happened.");
}

const EVENTS = 50;

async function latest(model) {
  const head = await ask("events/head");
  return newest(head.seq, EVENTS, (after) => ask("events", { after, limit: 1000, model }));
}

async function showLog(from) {
  const head = await ask("events/head");
  const after = from ? Number(from) : Math.max(0, head.seq - EVENTS);
  const found = await ask("events", { after, limit: EVENTS });
  return [
    node("h2", {}, "Log"),
    node("p", {}, `${head.seq} events; the last was at ${when(head.time)}. Its hash, which vouches for all before it: `, code(head.hash)),
    eventsTable(found.events.reverse()),
    node("p", { class: "row" },
      after > 0 ? to("earlier", "log", Math.max(0, after - EVENTS)) : "", after + EVENTS < head.seq ? to("later", "log", after + EVENTS) : ""),
  ];
}

function question(text, act) {
  const yes = find("yes"), refused = find("refused");
  find("question").textContent = text;
  find("comment").value = "";
  refused.hidden = true;
  yes.disabled = false;
  yes.onclick = async () => {
    yes.disabled = true; // until there is an answer: asked twice is done twice
    try {
      await act(find("comment").value);
      find("dialog").close();
      show();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      refused.textContent = [error.message, ...(error.report?.findings || []).map((one) => one.message)].join("\n");
      refused.hidden = false;
    } finally {
      yes.disabled = false;
    }
  };
  find("dialog").showModal();
}

const PAGES = { "": showModels, models: showModels, search: showSearch, model: showModel, version: showVersion, compare: showCompared, promotions: showPromotions, log: showLog };

async function show() {
  const mine = ++shown, [name, ...rest] = route(location.hash);
  find("status").textContent = "asking …";
  document.title = ["Vitrify registry", ...[name, ...rest.slice(0, 2)].filter(Boolean)].join(" · ");
  find("query").value = name === "search" ? rest[0] || "" : "";
  for (const anchor of document.querySelectorAll("nav a")) {
    const here = anchor.getAttribute("href") === (name && name !== "models" ? `#/${name}` : "#/");
    if (here) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  let content, entered = true;
  try {
    content = await (PAGES[name] || showModels)(...rest);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    entered = error.status !== 401;
    content = [complaint(entered || sessionStorage.getItem("token") ? error.message : "")];
  }
  if (mine !== shown) return; // the reader has gone on meanwhile
  find("main").replaceChildren(...content.flat(Infinity).filter((one) => one !== null));
  find("door").hidden = entered;
  find("ask").hidden = !entered;
  find("leave").hidden = !entered || !sessionStorage.getItem("token");
  find("status").textContent = "";
}

find("door").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", find("token").value.trim());
  find("token").value = "";
  show();
});
find("leave").addEventListener("click", () => { sessionStorage.removeItem("token"); show(); });
find("ask").addEventListener("submit", (event) => { event.preventDefault(); location.hash = link("search", find("query").value); });
window.addEventListener("hashchange", show);
show();
