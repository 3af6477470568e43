// Pure functions: what is shown follows from what the registry says.

const HIGH = 26, WIDE = 220, GAP = 70, BETWEEN = 14; // sizes in a drawing, in pixels
const INTERNAL = ["content", "index", "secret"]; // hashes in events that vouch for what is kept elsewhere

function when(text) {
  return text ? `${text.slice(0, 16).replace("T", " ")} UTC` : "";
}

// A number as it is kept: no digit is left out.
function figure(value) {
  return value === undefined || value === null ? "" : String(value);
}

// A number in a narrow column: six digits after the first that counts, and all before the point.
function rounded(value) {
  if (typeof value !== "number" || Number.isInteger(value)) return figure(value);
  return String(Math.abs(value) < 1e5 ? Number(value.toPrecision(6)) : Math.abs(value) < 1e21 ? Number(value.toFixed(0)) : value);
}

// Long text with its middle left out: what tells names and places apart stands at their ends.
function middle(text, most) {
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return text.slice(0, most - 1 - end) + "…" + text.slice(-end);
}

// The facts of an event in a line; what is empty is left out.
function brief(facts) {
  const known = Object.entries(facts || {}).filter(([name, value]) => (
    value !== "" && value !== null && !INTERNAL.includes(name) && !["[]", "{}"].includes(JSON.stringify(value))));
  const shown = (name, value) => {
    if (name === "expires") return when(new Date(value / 1000).toISOString()); // the log counts microseconds
    return typeof value === "string" ? value : JSON.stringify(value);
  };
  const line = known.map(([name, value]) => `${name} ${shown(name, value)}`).join(", ");
  const text = line.replace(/[0-9a-f]{64}/g, (hash) => hash.slice(0, 12));
  return text.length > 160 ? text.slice(0, 159) + "…" : text;
}

// What a statement says: its predicate, and the names of the keys that claim to have signed it.
function said(content) {
  let statement = JSON.parse(content), keys = [];
  if (statement.payload !== undefined) {
    keys = (statement.signatures || []).map((one) => one.keyid || "a key without a name");
    const bytes = atob(statement.payload.replaceAll("-", "+").replaceAll("_", "/"));
    statement = JSON.parse(new TextDecoder().decode(Uint8Array.from(bytes, (one) => one.charCodeAt(0))));
  }
  const predicate = statement.predicate || {}, reports = Array.isArray(predicate.reports) ? predicate.reports : [];
  const verdicts = new Set([predicate.verdict, ...reports.map((one) => one && one.verdict)].filter((one) => typeof one === "string"));
  return { predicate, keys, verdict: [...verdicts].join(", ") };
}

// Where each node of a lineage stands: a column for how far it is from the first cause, a row in that column.
function placed(nodes, edges) {
  const column = new Map(nodes.map((node) => [node.id, 0]));
  for (let round = 0; round < nodes.length; round++) {
    let moved = false;
    for (const { source, target } of edges) {
      if (column.get(target) <= column.get(source) && column.get(source) + 1 < nodes.length) {
        column.set(target, column.get(source) + 1);
        moved = true;
      }
    }
    if (!moved) break;
  }
  const rows = new Map();
  return nodes.map((node) => {
    const at = column.get(node.id), row = rows.get(at) || 0;
    rows.set(at, row + 1);
    return { id: node.id, x: at * (WIDE + GAP), y: row * (2 * HIGH + BETWEEN) };
  });
}

// The rows of a comparison: a name, each version's value, and whether they differ.
function compared(versions, field) {
  const names = [...new Set(versions.flatMap((version) => Object.keys(version[field] || {})))].sort();
  return names.map((name) => {
    const values = versions.map((version) => (version[field] || {})[name]);
    return { name, values, differ: new Set(values.map((value) => JSON.stringify(value))).size > 1 };
  });
}

// The last events of a model. The log is read forwards only, so where to begin is searched for: the nearest place
// with enough behind it, and no more than comes at once.
async function newest(end, enough, ask) {
  let few = end, many = -1; // behind `few` there is too little, behind `many` too much
  for (let span = 1000; ; span *= 8) {
    const after = many < 0 ? Math.max(0, end - span) : Math.floor((many + few) / 2);
    const found = await ask(after);
    if (found.next && few - after > 1) many = after;
    else if (found.events.length >= enough || after === 0) return found.events.slice(-enough).reverse();
    else few = after;
  }
}

// ["version", "risk/wine", "1.0.0"] from "#/version/risk%2Fwine/1.0.0"; what cannot be read leads to the models.
function route(hash) {
  try {
    return hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return [""];
  }
}

function link(...parts) {
  return "#/" + parts.map(encodeURIComponent).join("/");
}

// Text in quotes, as the query language takes it.
function quoted(text) {
  return `'${text.replace(/['\\]/g, "\\$&")}'`;
}
