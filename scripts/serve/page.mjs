// What the browser's tests share: a page whose console errors and outside requests are remembered, and ways to use it.

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const playwright = await import(pathToFileURL(path.join(process.env.NODE_MODULES, "playwright-core/index.mjs")));
const axe = fs.readFileSync(path.join(process.env.NODE_MODULES, "axe-core/axe.min.js"), "utf8");
export const url = process.argv[2];
const shots = process.env.SHOTS || null;
const problems = [];
const browser = await playwright.chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu"],
});

export const PROMPT = "Tom has 12 pens. Tom buys 7 more. Tom loses 5. How many pens does Tom have now?";
export const DESKTOP = { width: 1360, height: 900 };
export const PHONE = { width: 390, height: 844 };

/** A fresh page of any address; errors are remembered. */
export async function visit(address, { viewport = DESKTOP, colorScheme = "light", motion = "reduce", bare = false } = {}) {
  const context = await browser.newContext({ viewport, colorScheme, reducedMotion: motion, acceptDownloads: true, bypassCSP: bare });
  const page = await context.newPage();
  page.on("console", (message) => {
    // Chromium itself logs every answer of 4xx; whether the page says so too is tested.
    const refusal = /Failed to load resource.*status of 4\d\d/.test(message.text());
    if (["error", "warning"].includes(message.type()) && !refusal) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error.stack ?? error)));
  page.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    const own = origin === new URL(url).origin || (protocol === "file:" && address.startsWith("file:"));
    if (!["data:", "blob:"].includes(protocol) && !own) problems.push(`outside request: ${request.url()}`);
  });
  await page.goto(address);
  return page;
}

/** The page, connected, with its opening. */
export async function open(viewport = DESKTOP, colorScheme = "light", more = {}) {
  const page = await visit(url + (more.address ?? ""), { viewport, colorScheme, ...more });
  await connected(page);
  return page;
}

export async function connected(page) {
  await page.waitForFunction(() => !["connecting…", "locked"].includes(document.getElementById("model").textContent));
  await page.waitForSelector("#decoder-a select", { state: "attached" });
  await page.waitForFunction(() => !["", "Choosing an example…"].includes(document.getElementById("caption").textContent), null, { timeout: 60_000 });
}

export const settle = (page) =>
  page.waitForFunction(
    () => {
      const [scrub, stop] = ["scrub", "stop"].map((id) => document.getElementById(id));
      return (stop?.disabled ?? true) && Number(scrub.max) > 0 && scrub.value === scrub.max && document.getElementById("play").textContent.includes("▶");
    },
    null,
    { timeout: 60_000 },
  );

/** Asks and waits for the end. */
export async function generate(page, text = PROMPT) {
  if (text !== null) await page.fill("#text", text);
  await page.click("#go");
  await settle(page);
}

export const count = (page, selector) => page.locator(selector).count();
export const tokens = (page, lane = ".lane-a") =>
  page.$$eval(`${lane} .token`, (chips) => chips.map((chip) => (chip.classList.contains("masked") ? null : chip.textContent.trim())));
export const steps = async (page, lane = ".lane-a") => Number(await page.textContent(`.lane${lane} .numbers dd`));
/** Steps are shown as they come; on a phone the choice of the pace is out of sight. */
export const fast = (page) => page.$eval("#pace", (select) => (select.value = "0"));
export const alone = (page) => page.uncheck("#race");
export const shoot = async (page, name, fullPage = true) => {
  if (shots) await page.screenshot({ path: path.join(shots, `${name}.png`), fullPage });
};

/** Moves a slider as a hand would. */
export const slide = (page, selector, value) =>
  page.$eval(
    selector,
    (input, value) => {
      input.value = value;
      input.dispatchEvent(new Event("input", { bubbles: true }));
      input.dispatchEvent(new Event("change", { bubbles: true }));
    },
    value,
  );

/** What axe-core holds against a page, the serious and the critical; needs a page visited as `bare`. */
export async function violations(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.target.join(" ")).join(", ")}`);
}

/** Runs the tests whose names have the word of the command line in them; a failure or a console error ends in 1. */
export async function run(tests) {
  let failed = 0;
  const only = process.argv[3];
  for (const [name, test] of Object.entries(tests)) {
    if (only && !name.includes(only)) continue;
    try {
      const skipped = await test();
      console.log(skipped ? `skip  ${name}: ${skipped}` : `ok    ${name}`);
    } catch (error) {
      failed++;
      console.log(`FAIL  ${name}\n${error.stack}`);
    }
  }
  await browser.close();
  for (const problem of problems) console.log(`console: ${problem}`);
  process.exit(failed || problems.length ? 1 : 0);
}
