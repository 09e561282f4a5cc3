// Small helpers for elements; everything shown goes through text nodes, never through markup.

/** An element with properties, `class`, attributes with dashes, and children. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && !name.includes("-")) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null));
  return node;
}

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** The element of an id. */
export const at = (id) => document.getElementById(id);

/** A token's text as it can be read: line ends and spaces made visible where they are all there is. */
export function visible(text) {
  if (text === "") return "∅";
  const shown = text.replace(/\n *$/, "⏎").replace(/\n/g, "⏎");
  return /^\s+$/.test(shown) ? shown.replace(/\t/g, "⇥").replace(/ /g, "·") : shown;
}

/** A token's text inside a sentence. */
export const quoted = (text) => `“${visible(text).trim()}”`;

/** A number with few digits. */
export function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(size < 1 ? 2 : 3)));
}

/** Seconds. */
export const seconds = (value) => (value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(2)} s`);

/** A number with its noun. */
export const counted = (n, noun, many = `${noun}s`) => `${n} ${n === 1 ? noun : many}`;
