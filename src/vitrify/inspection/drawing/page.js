// Walk around in a graph: drag, scroll, search, pick. The drawing itself is the SVG; without this script it still shows.
const facts = JSON.parse(document.getElementById("facts").textContent);
const [main, aside] = [document.querySelector("main"), document.querySelector("aside")];
const [choice, find, counted] = ["select", "input", "output"].map((name) => document.querySelector(name));
const views = {};
let drag = null, matches = [], at = -1;

const section = () => document.getElementById("graph" + choice.value);
const drawing = () => section().querySelector("svg");
const view = () => (views[choice.value] ??= fit());

function fit() {
  const [inner, outer] = [drawing().viewBox.baseVal, section().getBoundingClientRect()];
  const k = Math.min(1, Math.max(outer.width / inner.width, 0.05));
  return { k, x: (outer.width - inner.width * k) / 2, y: 0 };
}

function move() {
  const { x, y, k } = view();
  drawing().style.transform = `translate(${x}px, ${y}px) scale(${k})`;
}

function show() {
  for (const one of document.querySelectorAll("main section")) one.hidden = one !== section();
  move();
}

function pick(box) {
  document.querySelector(".picked")?.classList.remove("picked");
  box.classList.add("picked");
  aside.replaceChildren();
  for (const [key, value] of facts[box.id] ?? []) {
    const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
    [dt.textContent, dd.textContent] = [key, value];
    aside.append(dt, dd);
  }
}

function centre(box) {
  const [v, inner, outer] = [view(), box.getBBox(), section().getBoundingClientRect()];
  v.k = Math.max(v.k, 0.6);
  v.x = outer.width / 2 - (inner.x + inner.width / 2) * v.k;
  v.y = outer.height / 2 - (inner.y + inner.height / 2) * v.k;
  move();
}

main.addEventListener("wheel", (event) => {
  event.preventDefault();
  const [v, outer] = [view(), section().getBoundingClientRect()];
  const [x, y] = [event.clientX - outer.x, event.clientY - outer.y];
  const k = Math.min(4, Math.max(0.02, v.k * Math.exp(-event.deltaY / 500)));
  [v.x, v.y, v.k] = [x - ((x - v.x) * k) / v.k, y - ((y - v.y) * k) / v.k, k];
  move();
}, { passive: false });
main.addEventListener("pointerdown", (event) => (drag = [event.clientX, event.clientY]));
addEventListener("pointerup", () => (drag = null));
addEventListener("pointermove", (event) => {
  if (!drag) return;
  const v = view();
  v.x += event.clientX - drag[0];
  v.y += event.clientY - drag[1];
  drag = [event.clientX, event.clientY];
  move();
});
main.addEventListener("click", (event) => {
  const box = event.target.closest("g[id]");
  if (box) pick(box);
});
find.addEventListener("input", () => {
  const text = find.value.toLowerCase();
  const told = (box) => JSON.stringify(facts[box.id] ?? []).toLowerCase();
  matches = text ? [...section().querySelectorAll("g[id]")].filter((box) => told(box).includes(text)) : [];
  at = -1;
  counted.textContent = text ? `${matches.length} found` : "";
});
find.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !matches.length) return;
  at = (at + 1) % matches.length;
  pick(matches[at]);
  centre(matches[at]);
});
choice.addEventListener("change", show);
show();
